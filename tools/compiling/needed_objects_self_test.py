#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/compiling/needed_objects.py on a small build with the compiler: an example that needs one of two objects of an archive."""

import contextlib
import io
import pathlib
import subprocess
import tempfile
import unittest

import needed_objects

BUILD = """rule compile
  command = g++ -MD -MF $out.d -o $out -c $in
  depfile = $out.d
rule archive
  command = rm -f $out && ar csrDT $out $in
rule link
  command = g++ -o $out -Wl,--undefined=wanted -Wl,--start-group $in -Wl,--end-group
build lib.a.p/used.cpp.o: compile ../used.cpp
build lib.a.p/unused.cpp.o: compile ../unused.cpp
build lib.a.p/deeper.cpp.o: compile ../deeper.cpp
build lib.a.p/wanted.cpp.o: compile ../wanted.cpp
build lib.a: archive lib.a.p/wanted.cpp.o lib.a.p/used.cpp.o lib.a.p/unused.cpp.o lib.a.p/deeper.cpp.o
build examples/show.p/show.cpp.o: compile ../examples/show.cpp
build examples/show: link examples/show.p/show.cpp.o lib.a
"""
SOURCES = {"used.cpp": "int deeper(); int used() { return deeper(); }", "deeper.cpp": "int deeper() { return 0; }",
           "wanted.cpp": 'extern "C" void wanted() {}',
           "unused.cpp": "int unused() { return 1; }", "examples/show.cpp": "int used(); int main() { return used(); }"}


class Needed(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.kept.name).resolve()
        self.build, self.list = root / "build", root / "examples/needed/show.txt"
        self.build.mkdir()
        (root / "examples").mkdir()
        for name, text in SOURCES.items():
            (root / name).write_text(text + "\n")
        (self.build / "build.ninja").write_text(BUILD)
        self.root, needed_objects.ROOT = needed_objects.ROOT, root

    def tearDown(self):
        needed_objects.ROOT = self.root
        self.kept.cleanup()

    def run_tool(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as complaint:
            status = needed_objects.main([str(self.build), "show", *arguments])
        return status, said.getvalue(), complaint.getvalue()

    def ninja(self, *targets):
        subprocess.run(["ninja", "-C", self.build, *targets], check=True, capture_output=True)

    def test_lists_what_the_linker_takes_and_builds_from_that(self):
        self.ninja("examples/show")
        self.assertEqual(self.run_tool("--write")[0], 0)
        self.assertEqual(self.list.read_text(), "deeper.cpp\nused.cpp\nwanted.cpp\n")
        self.assertEqual(self.run_tool("--check"), (0, "examples/show takes 3 of 4 objects\n", ""))
        self.ninja("-t", "clean")
        status, objects, _ = self.run_tool("--objects")
        self.assertEqual((status, objects.split()),
                         (0, ["examples/show.p/show.cpp.o", "lib.a.p/deeper.cpp.o", "lib.a.p/used.cpp.o",
                              "lib.a.p/wanted.cpp.o"]))
        self.ninja(*objects.split())
        self.assertEqual(self.run_tool("--link", "show.demo")[0], 0)
        self.assertEqual(subprocess.run([self.build / "show.demo"]).returncode, 0)
        self.assertFalse((self.build / "lib.a.p/unused.cpp.o").exists())

    def test_a_build_that_is_older_than_its_description_is_written_anew_first(self):
        tail = "rule renew\n  command = cp next.ninja build.ninja\n  generator = 1\nbuild build.ninja: renew next.ninja\n"
        (self.build / "build.ninja").write_text(tail)
        (self.build / "next.ninja").write_text(BUILD + tail)
        status, objects, complaint = self.run_tool("--objects")
        self.assertEqual((status, objects.split(), complaint), (0, ["examples/show.p/show.cpp.o"], ""))

    def test_a_list_that_is_too_short_is_told(self):
        self.ninja("examples/show")
        self.list.parent.mkdir()
        self.list.write_text("used.cpp\ndeeper.cpp\n")
        status, _, complaint = self.run_tool("--link", "show.demo")
        self.assertEqual(status, 1)
        self.assertIn("wanted", complaint)
        self.list.write_text("used.cpp\nunused.cpp\nwas_removed.cpp\nwanted.cpp\n")
        status, _, complaint = self.run_tool("--link", "show.demo")
        self.assertEqual(status, 1)
        self.assertIn("deeper()", complaint)
        status, said, _ = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("examples/needed/show.txt lacks deeper.cpp\n", said)
        self.assertIn("examples/needed/show.txt has unused.cpp, which is not needed\n", said)


if __name__ == "__main__":
    unittest.main()
