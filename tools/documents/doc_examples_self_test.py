#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/documents/doc_examples.py on documents of each sort, with the compiler: what does not compile is told by its line."""

import pathlib
import subprocess
import tempfile
import unittest

import doc_examples

GOOD = """# Title

```cpp
#include <vector>

std::vector<int> numbers{1, 2};
...
numbers.clear();  // and so on
  ...   // elided
```

<!-- compile: continues
#include <limits>
int given = std::numeric_limits<int>::max();
-->

```cpp
numbers.push_back(given);
```

<!-- compile: declarations -->
```cpp
template <class T> T twice(T x) { return x + x; }
```

<!-- compile: program -->
```cpp
#include <string>

int main() { return static_cast<int>(std::string().size()); }
```

<!-- compile: skip only names, no code -->
```cpp
this is no C++
```

```sh
nor this
```
"""


class Documents(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.kept.name)
        frame = self.folder / doc_examples.FRAME
        frame.parent.mkdir(parents=True)
        frame.write_text("")

    def tearDown(self):
        self.kept.cleanup()

    def compile(self, source):
        path = self.folder / "source.cpp"
        path.write_text(source)
        return subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-I", self.folder, path], capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": "C"})

    def test_what_is_right_compiles(self):
        blocks = doc_examples.blocks_of("docs/good.md", GOOD)
        self.assertEqual([block.kind for block in blocks], ["function", "continues", "declarations", "program", "skip"])
        self.assertEqual(blocks[-1].note, "only names, no code")
        for source in (doc_examples.fragments(blocks), doc_examples.programs(blocks)):
            done = self.compile(source)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_wrong_does_not_and_is_found_by_its_line(self):
        for text, line in ((GOOD.replace("numbers.clear()", "numbers.clean()"), 8),
                           (GOOD.replace("push_back(given)", "push_back(taken)"), 18),
                           (GOOD.replace("return x + x;", "return x +;"), 23)):
            done = self.compile(doc_examples.fragments(doc_examples.blocks_of("docs/bad.md", text)))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"docs/bad.md:{line}:", done.stderr)

    def test_a_program_has_nothing_but_its_own_includes(self):
        blocks = doc_examples.blocks_of("docs/bad.md", GOOD.replace("#include <string>", ""))
        self.assertNotEqual(self.compile(doc_examples.programs(blocks)).returncode, 0)

    def test_marks_that_cannot_be_meant(self):
        for mark, problem in (("fragment", "compile: fragment?"), ("skip", "wants the reason"), ("function int x;", "lines of its own"),
                              ("continues", "no function")):
            with self.assertRaisesRegex(doc_examples.Fault, problem.replace("?", r"\?")):
                doc_examples.blocks_of("docs/bad.md", f"text\n\n<!-- compile: {mark} -->\n```cpp\nint x;\n```\n")
        with self.assertRaisesRegex(doc_examples.Fault, "docs/bad.md:1: the block has no end"):
            doc_examples.blocks_of("docs/bad.md", "```cpp\nint x;\n")

    def test_another_comment_is_no_mark(self):
        block, = doc_examples.blocks_of("a.md", "<!-- compile: skip far above -->\n\ntext\n\n<!-- note -->\n```cpp\nint x;\n```\n")
        self.assertEqual(block.kind, "function")

    def test_what_is_printed_stands_behind(self):
        code = "```cpp\nstd::cout << 1;\n```\n"
        printed = "\n<!-- prints -->\n```text\n1\n 2\n```\n"
        block, = doc_examples.blocks_of("a.md", f"{code}\nIt prints:\n{printed}")
        self.assertEqual((block.printed, block.differs), (["1", " 2"], ""))
        block, = doc_examples.blocks_of("a.md", f"{code}<!-- prints what differs: times -->\n")
        self.assertEqual((block.printed, block.differs), (None, "times"))
        for between in ("# Next\n", code):
            self.assertIsNone(doc_examples.blocks_of("a.md", code + between + printed)[0].printed)
        for mark, problem in (("prints what differs:", "wants the reason"), ("prints", "no block with the output follows")):
            with self.assertRaisesRegex(doc_examples.Fault, f"a.md:4: .*{problem}"):
                doc_examples.blocks_of("a.md", f"{code}<!-- {mark} -->\n\ntext\n\n```text\n1\n```\n")

    def test_what_differs_from_what_is_printed_is_told(self):
        for expected, printed in ((["a", "b"], "a\nb\n"), (["loss 0.1...", "[...] x"], "loss 0.123\n[] x"), (["a."], "a.  \n\n")):
            self.assertEqual(doc_examples.difference(expected, printed), "")
        for expected, printed, line in ((["a."], "ab", 1), (["a"], "a\nb", 2), (["a", "b"], "a", 2), (["loss 0.1..."], "loss 0.2", 1)):
            self.assertIn(f"line {line} is ", doc_examples.difference(expected, printed))

    def test_what_prints_is_compiled_and_run(self):
        output = "<!-- prints -->\n```text\n%s\n```\n"
        text = "\n".join((
            "<!-- compile: declarations -->\n```cpp\ninline int three() { return 3; }\n```",
            "```cpp\nundeclared_elsewhere();\n```",
            "<!-- compile: function\n#include <iostream>\nusing block_0::three;\n-->\n```cpp\nstd::cout << three();\n```\n" + output % "3 and",
            "<!-- compile: continues -->\n```cpp\nstd::cout << \" and\\n4\\n\";\n```\n" + output % "4",
            "<!-- compile: program -->\n```cpp\n#include <cstdio>\n#include <fstream>\n\nint main(int count, char**) {\n"
            "  std::puts(std::ifstream(\"examples/minimal.cpp\") && count == 1 ? \"here\" : \"not here\");\n}\n```\n" + output % "here",
            "<!-- compile: program -->\n```cpp\n#include <cstdio>\n\nint main() try {\n  std::puts(\"5\");\n} catch (int) {\n  return 1;\n}\n```\n" + output % "6"))
        runs = doc_examples.runs_of(blocks := doc_examples.blocks_of("docs/a-b.md", text))
        self.assertEqual([run.printed for run in runs], [["3 and", "4"], ["here"], ["6"]])
        include = self.folder / doc_examples.PRINTING_HEADER
        include.parent.mkdir(parents=True, exist_ok=True)
        sources = doc_examples.ROOT / "tests/documents"
        include.write_text((sources / "printing.h").read_text())
        for name in ("docs/a-b.md", "docs/c.md"):  # of which names do not collide
            blocks = doc_examples.blocks_of(name, text)
            (self.folder / name.replace("/", "_")).with_suffix(".cpp").write_text(doc_examples.printing(blocks))
        program = self.folder / "program"
        subprocess.run(["g++", "-std=c++20", "-Wall", "-Werror", "-I", self.folder, *self.folder.glob("docs_*.cpp"), sources / "printing.cpp", "-o", program], check=True)
        self.assertEqual([doc_examples.run_printing(program, run) for run in runs], ["", "", "line 1 is '5', not '6'"])
        runs[0].where = "docs/gone.md:1"
        self.assertIn("ends with status 2", doc_examples.run_printing(program, runs[0]))


if __name__ == "__main__":
    unittest.main()
