#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev where it answers before it installs, configures or compiles anything: in a copy whose every such step fails."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.kept.name)
        shutil.copy(ROOT / "dev", cls.root)
        shutil.copytree(ROOT / "tools", cls.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "examples/help", cls.root / "examples/help")
        shutil.copytree(ROOT / "command/bench", cls.root / "command/bench", ignore=shutil.ignore_patterns("__pycache__"))
        for script in ("tools/setup.sh", "tools/compile_progress.py"):
            (cls.root / script).write_text("#!/bin/sh\necho \"$0 was called\" >&2\nexit 99\n")

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def expect(self, words, *arguments):
        done = subprocess.run([self.root / "dev", *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        for word in words:
            self.assertIn(word, done.stdout, arguments)
        self.assertFalse((self.root / "build").exists(), arguments)

    def test_commands_and_their_options(self):
        self.expect(["demo", "bench", "check"])
        self.expect(["demo", "bench", "check"], "--help")
        self.expect(["--device cpu|cuda|both"], "test", "--help")
        self.expect(["--full"], "check", "-h")
        self.expect(["--rehearse"], "gpu", "--help")
        self.expect(["--list", "OLD NEW", "--peers"], "bench", "--help")

    def test_options_of_the_examples(self):
        self.expect(["./dev demo [OPTIONS]", "--epochs"], "demo", "--help")
        self.expect(["./dev demo [OPTIONS]", "--epochs"], "demo", "digits", "--epochs", "3", "-h")
        self.expect(["./dev demo text", "--temperature"], "demo", "text", "--help")
        self.expect(["./dev demo recommender", "--impressions"], "demo", "recommender", "--help")
        self.expect(["./dev demo resume", "--kills"], "demo", "resume", "--help")

    def test_whatever_else_prepares_first(self):
        done = subprocess.run([self.root / "dev", "demo"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 99)
        self.assertIn("setup.sh was called", done.stderr)


if __name__ == "__main__":
    unittest.main()
