#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/doc_examples.py on documents of each sort, with the compiler: what does not compile is told by its line."""

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


if __name__ == "__main__":
    unittest.main()
