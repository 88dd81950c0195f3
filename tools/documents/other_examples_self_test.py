#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/documents/other_examples.py on blocks of each language that are right and that are wrong."""

import unittest
import unittest.mock

import other_examples

GOOD = """# Title

`./dev check --full`, `tutti NAME`, `tutti info`, `tutti launch: the file has the mode 644`, `./dev demo [--epochs N]`

```python
class A:
    x = 1
```

  ```sh
  ./dev bench '^(a|b)' --benchmark_repetitions=10  # ./dev gone
  if true; then tutti launch -n 2 \\
    --hosts=2 -- ./train --gone; fi
  scp -p tutti node1:job/
  tools/setup.sh build && ./dev profile --help
  ```

```yaml
a: {b: c}
---
- d
```

```cpp
no C++, which is doc_examples.py's
```

```text
./dev gone
```
"""


class Documents(unittest.TestCase):
    def check(self, text, document="docs/a.md"):
        return other_examples.check_text(document, text, other_examples.python_with_yaml())

    def block(self, language, code):
        return self.check(f"text\n\n```{language}\n{code}\n```\n")[0]

    def test_what_is_right(self):
        faults, checked, skipped = self.check(GOOD)
        self.assertEqual((faults, checked + skipped), ([], ["python", "sh", "yaml"]))

    def test_python_that_cannot_be_parsed(self):
        self.assertRegex(self.block("python", "x = 1\nprint(x")[0], "^docs/a.md:5: Python: '\\(' was never closed")

    def test_shell_that_cannot_be_parsed(self):
        self.assertRegex(self.block("sh", "true\nif true; do")[0], "^docs/a.md:5: shell: syntax error near unexpected token `do'")

    def test_yaml_that_cannot_be_parsed(self):
        if not other_examples.python_with_yaml():
            self.skipTest("there is no PyYAML")
        self.assertRegex(self.block("yaml", "a: 1\nb: {c: d")[0], r"^docs/a.md:\d: YAML: ")

    def test_without_pyyaml_a_block_counts_as_skipped(self):
        self.assertEqual(other_examples.check_text("docs/a.md", "```yaml\n{\n```\n", None), ([], [], ["yaml"]))

    def test_commands_and_options_that_are_not_there(self):
        for code, fault in (("true\n./dev demos", "docs/a.md:5: ./dev has no command demos: there are demo, test, "),
                            ("true && tutti lunch -n 2", "docs/a.md:4: tutti has no command lunch: there are launch, bench, "),
                            ("tutti launch \\\n  -n 2 \\\n  --ranks 4 -- ./train\n", "docs/a.md:4: tutti launch has no --ranks"),
                            ("for i in 1 2; do ./dev docs --port=1; done", "docs/a.md:4: ./dev docs has no --port"),
                            ("./dev bench --peers --onl step", "docs/a.md:4: ./dev bench has no --onl"),
                            ("tools/gone.sh", "docs/a.md:4: there is no tools/gone.sh")):
            found = self.block("sh", code)
            self.assertEqual(len(found), 1, code)
            self.assertTrue(found[0].startswith(fault), found)

    def test_commands_within_the_text(self):
        for text, fault in (("a\n\n`./dev tests`", "docs/a.md:3: ./dev has no command tests"), ("`tutti report --life RUN`", "docs/a.md:1: tutti report has no --life")):
            self.assertTrue(self.check(text)[0][0].startswith(fault), text)
            self.assertEqual(self.check(text, "CHANGELOG.md")[0], [])

    def test_languages_that_nothing_checks(self):
        self.assertEqual(self.block("rust", "fn main"), ["docs/a.md:3: nothing checks a block of 'rust' here"])
        self.assertEqual(self.block("cmake", "find_package"), ["docs/a.md:3: nothing checks a block of 'cmake' here"])
        self.assertEqual(self.check("```cmake\n\n```\n", other_examples.COMPILED["cmake"])[0], [])


if __name__ == "__main__":
    unittest.main()
