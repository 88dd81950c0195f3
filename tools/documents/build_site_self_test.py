#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""build_site.py on a small project: what its site holds, and what keeps it from being built. Run by the Python of build/docs."""

import pathlib
import re
import shutil
import tempfile
import unittest
import unittest.mock

import build_site

SITE = pathlib.Path(__file__).resolve().parent


class Sites(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.root = pathlib.Path(kept.name)
        settings = (SITE / "mkdocs.yml").read_text()
        self.write("tools/documents/mkdocs.yml", re.sub(r"^nav:\n.*", "nav: [README.md, docs/a.md, reference/index.html]\n", settings, flags=re.M | re.S))
        for name in ("Doxyfile", "symbols.py", "reference.md", "site.css"):
            shutil.copy(SITE / name, self.root / "tools/documents")
        (self.root / "include").mkdir()
        (self.root / "include/tutti").symlink_to("..")
        self.write("tests/documents/include_paths.txt", "nn/linear.h\n")
        self.write("nn/linear.h", "#include <tutti/nn/layer.h>\nnamespace tutti {\n/// A layer.\nstruct Linear : Layer { int save() const; };\nint save(int);\n}\n")
        self.write("nn/layer.h", "namespace tutti {\nstruct Layer {};\nint sum_of(int);\nnamespace detail { struct Hidden {}; }\n}\n")
        self.write("README.md", "# Title\n\n[a](docs/a.md#part), [nn](nn), `Linear`, `<tutti/nn/linear.h>`, `sum_of`, `save`, `[x](nowhere)`\n")
        self.write("docs/a.md", "# A\n\n## Part\n\n[home](../README.md) [a header](../nn/layer.h)\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self):
        build_site.build(self.root, self.root / "built")
        return self.root / "built/html"

    def refused(self, *words):
        """The site is not built, with the words in what is said."""
        with self.assertRaises(build_site.Fault) as fault:
            self.build()
        for word in words:
            self.assertIn(word, str(fault.exception))

    def test_what_a_site_holds(self):
        html = self.build()
        page = (html / "index.html").read_text()
        for link in ('href="docs/a.html#part"', 'href="nn/index.html"', "reference/structtutti_1_1Linear.html", "reference/linear_8h.html",
                     'href="reference/namespacetutti.html#'):
            self.assertIn(link, page)
        self.assertIn("<code>save</code>", page)
        self.assertNotIn("<code>save</code></a>", page)  # which may be the function or the member
        self.assertIn("layer.h", (html / "nn/index.html").read_text())
        self.assertEqual((html / "nn/layer.h").read_text(), (self.root / "nn/layer.h").read_text())
        self.assertIn("A layer.", (html / "reference/structtutti_1_1Linear.html").read_text())
        self.assertEqual([*(html / "reference").glob("*Hidden*")], [])
        self.assertNotRegex(page, r'(src|href)="https?://(?!squidfunk|example)[^"]*\.(js|css|woff)')

    def test_links_that_lead_nowhere(self):
        self.write("docs/a.md", "# A\n\n## Part\n\n[gone](gone.md)\n")
        self.refused("gone.md", "docs/a.md")

    def test_headings_that_are_not_there(self):
        self.write("README.md", "# Title\n\n[a](docs/a.md#other)\n")
        self.refused("#other", "README.md")

    def test_documents_that_are_not_listed(self):
        self.write("docs/b.md", "# B\n")
        self.refused("docs/b.md")

    def test_pictures_that_are_not_there(self):
        self.write("docs/a.md", '# A\n\n## Part\n\n<img src="pictures/gone.png">\n')
        self.refused("docs/a.md: there is no pictures/gone.png")

    def test_headers_without_a_page(self):
        self.write("tools/documents/Doxyfile", (SITE / "Doxyfile").read_text() + f"EXCLUDE = {self.root}/built/include/tutti/nn/layer.h\n")
        self.refused("the reference lacks nn/layer.h")

    def test_members_without_a_text(self):
        with unittest.mock.patch("build_site.WITHOUT_TEXT", 3):
            self.build()  # Linear::save, save and sum_of
        self.assertEqual((self.root / "built/without_text.txt").read_text(),
                         "tutti/nn/layer.h: tutti::sum_of\ntutti/nn/linear.h: tutti::Linear::save\ntutti/nn/linear.h: tutti::save\n")
        self.write("nn/layer.h", "namespace tutti {\n/// A layer.\nstruct Layer {\n  Layer(const Layer&);\n  ~Layer();\n  virtual int size() const;  ///< units\n};\n"
                                 "/// A sum.\nint sum_of(int);\nint sum_of(int, int);\nint fresh();  // no text\n}\n")
        with unittest.mock.patch("build_site.WITHOUT_TEXT", 2):
            self.refused("3 public members have no text", "2 had none before", "without_text.txt")
        self.assertIn("tutti::fresh\n", (self.root / "built/without_text.txt").read_text())


if __name__ == "__main__":
    unittest.main()
