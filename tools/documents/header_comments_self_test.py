#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/documents/header_comments.py on declarations of each sort: which get a comment that stands above others, and which do not."""

import pathlib
import tempfile
import unittest

import header_comments


class Comments(unittest.TestCase):
    def expect(self, text, *added):
        """The lines that are added, each with the line that it stands above."""
        before, after = text.split("\n"), header_comments.completed(text).split("\n")
        found, at = [], 0
        for number, line in enumerate(after):
            if at < len(before) and line == before[at]:
                at += 1
            else:
                found.append((line.strip(), after[number + 1].strip()))
        self.assertEqual(at, len(before), after)
        self.assertEqual(found, list(added))

    def test_functions_right_below_have_the_comment_of_the_one_above(self):
        self.expect("/// The largest.\nint max(int);\nint max(int,\n        int);\ninline int least(int a) {\n  return a;\n}\nint operator<<(int, char);\n\nint other(int);\n",
                    ("/// The largest.", "int max(int,"), ("/// The largest.", "inline int least(int a) {"), ("/// The largest.", "int operator<<(int, char);"))

    def test_members_only_have_that_of_their_own_name(self):
        self.expect("struct A {\n  /// Adds.\n  void add(int);\n  template <class T> void add(std::function<int(T)> each);\n  void remove(int);\n  void add();\n};\n",
                    ("/// Adds.", "template <class T> void add(std::function<int(T)> each);"))

    def test_what_has_a_comment_of_its_own_ends_it(self):
        for own in ("int g(int);  ///< own", "int g(int);  // own", "int g(int);\n///< own", "/// Own.\nint g = f(1);", "#include <h>", "struct A {};", "using A = int;", "int g = f(2);"):
            self.expect(f"/// One.\nint f(int);\n{own}\nint h(int);\n")

    def test_what_speaks_for_itself_has_none(self):
        self.expect("class A {\n public:\n  /// Makes it.\n  explicit A(int);\n  A(const A&);\n  A(A&&) noexcept = default;\n  ~A();\n  A& operator=(const A&) = delete;\n  A(int, int);\n};\n",
                    ("/// Makes it.", "A(int, int);"))

    def test_titles_of_parts(self):
        self.expect("namespace tutti {\n// --- steps, whose gradient is 0, and\n// bounds\nint floor(int);\nint round(int);  ///< halves to even\nTUTTI_UNARY(Sign, sign)\n"
                    "struct A {\n  int member;\n};\n// --- a step\nint step(int);\n}  // namespace tutti\nint after(int);\n",
                    ("/// Steps, whose gradient is 0, and bounds", "int floor(int);"), ("/// Steps, whose gradient is 0, and bounds", "TUTTI_UNARY(Sign, sign)"))
        self.expect("struct A {\n  // --- what is known of it before it ends\n  int a();\n  int b = 0;\n\n private:\n  int c();\n};\n",
                    ("/// What is known of it before it ends", "int a();"), ("/// What is known of it before it ends", "int b = 0;"))

    def test_the_header_of_c(self):
        self.expect('#ifdef __cplusplus\nextern "C" {\n#endif\n/// Writes and reads.\nint save(const char* path);\nint load(const char* path);\n#ifdef __cplusplus\n}\n#endif\n',
                    ("/// Writes and reads.", "int load(const char* path);"))

    def test_the_functions_of_the_list_of_operations_stand_where_it_is_included(self):
        operations = ("#ifndef TUTTI_UNARY\n#define TUTTI_UNARY(Operation, ...)\n#endif\n// --- functions, of which outside of a domain is NaN\nTUTTI_UNARY_BY_HAND(Negate)\n"
                      "/// Angle.\nTUTTI_UNARY(Sin, sin)\nTUTTI_UNARY(HardTanh, hard_tanh, (low, -1.0), (high, 1.0))\n/// Both.\nTUTTI_BINARY(Atan2, atan2)\n#undef TUTTI_UNARY\n")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for header, text in ((header_comments.LISTED_IN, f"#include <tutti/{header_comments.LIST}>\n/// a\nint b;  ///< > 0\n"), (header_comments.LIST, operations)):
                (root / header).parent.mkdir(parents=True)
                (root / header).write_text(text)
            self.assertEqual(header_comments.with_comments(root, header_comments.LISTED_IN).replace("\n\n", "\n").splitlines()[1:], [
                "/// Angle.", "Tensor sin(const Tensor& x);", "/// Functions, of which outside of a domain is NaN",
                "Tensor hard_tanh(const Tensor& x, double low = -1.0, double high = 1.0);", "/// Both.", "Tensor atan2(const Tensor& a, const Tensor& b);",
                "/// Both.", "template <Literal T> Tensor atan2(const Tensor& a, T b);", "/// Both.", "template <Literal T> Tensor atan2(T a, const Tensor& b);",
                "/// a", "int b;  ///< \\> 0"])


if __name__ == "__main__":
    unittest.main()
