#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev gpu --rehearse in a copy of the tools, with programs in the pack, profiler and sanitizer that only talk as the true ones do."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Test cases by folder; --first and --last as doctest has them.
DEVICE_TESTS = """#!{python}
import sys
words = " ".join(sys.argv)
cases = [("comparison: sums", "comparison"), ("comparison: products", "comparison"), ("adam", "optim"), ("sgd", "optim")]
if "test-case-exclude=" in words: cases = [case for case in cases if case[1] != "comparison"]
elif "test-case=comparison" in words: cases = [case for case in cases if case[1] == "comparison"]
if "--list-test-cases" in sys.argv:
    print('<?xml version="1.0"?><doctest>' + "".join(
        '<TestCase name="%s" filename="../tests/%s/a_test.cpp"/>' % case for case in cases) + "</doctest>")
    sys.exit()
if "--count" in sys.argv: sys.exit({starts})
given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
for name, _ in cases[int(given["--first"]) - 1:int(given["--last"])]:
    print("[progress] started " + name + "\\n[progress] passed in 0.001 s", flush=True)
"""
GPU_BENCH = """#!{python}
import json, sys
if "--help" in sys.argv:
    print("--only TEXT:{{attention,matmul,memory,training}}")
    sys.exit()
given = dict(zip(sys.argv, sys.argv[1:]))
group = given["--only"]
if group == "parts":
    print("--only: %s not in {{attention,matmul,memory,training}}\\nRun with --help for more information." % group)
    sys.exit(105)
if group in {faults!r}:
    print("--only " + group + ": an error of CUDA's")
    sys.exit(1)
if group in ("memory", "matmul", "training", "attention"):
    row = dict(table=group, name="a row", seconds=0.001, work=1e9, peer="", peer_seconds=0, peer_work=0)
    open(given["--output"], "w").write(json.dumps([row]))
"""
SANITIZER = """#!/bin/bash
[ "$TUTTI_POOL" = off ] || exit 1
while [[ $1 == --* ]]; do tool=$2; shift 2; done
"$@"
[ "$tool" = racecheck ] && echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ||
  echo "========= ERROR SUMMARY: 0 errors"
"""
NCU = """#!/bin/bash
printf '    Duration   us   12.50\\n    DRAM Throughput   %%   80.1\\n'
"""


class Stages(unittest.TestCase):
    def setUp(self):
        self.kept = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.kept.name, "tree")
        self.root.mkdir()
        shutil.copy(ROOT / "dev", self.root)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "docs").mkdir()
        (self.root / "meson.build").write_text("project('none')\n")
        (self.root / "benches/peers").mkdir(parents=True)
        self.write("benches/peers/torch_eager.py", "import sys\nprint('PyTorch cannot be imported')\nsys.exit(77)\n")
        self.bin = pathlib.Path(self.kept.name, "bin")
        self.bin.mkdir()
        self.output = pathlib.Path(self.kept.name, "output")

    def tearDown(self):
        self.kept.cleanup()

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def pack(self, starts=0, faults=()):
        sources = subprocess.run([sys.executable, self.root / "tools/source_fingerprint.py"], capture_output=True, text=True)
        self.write("content/tests/device_tests", DEVICE_TESTS.format(python=sys.executable, starts=starts))
        self.write("content/tests/device_probe", "#!/bin/sh\n")
        self.write("content/benches/cuda/gpu_bench", GPU_BENCH.format(python=sys.executable, faults=list(faults)))
        self.write("content/commit", "0123abc\n")
        self.write("content/headers/fmt/format.h", "")
        self.write("content/sources", sources.stdout)
        (self.root / "build-gpu-pack").mkdir()
        with tarfile.open(self.root / "build-gpu-pack/pack.tar.xz", "w:xz") as archive:
            archive.add(self.root / "content", ".")
        shutil.rmtree(self.root / "content")

    def rehearse(self, *arguments):
        for name in ("meson", "ninja"):
            (self.bin / name).write_text(f"#!/bin/sh\necho {name} was called\nexit 9\n")
        for program in self.bin.iterdir():
            program.chmod(0o755)
        done = subprocess.run([self.root / "dev", "gpu", "--rehearse", *arguments], capture_output=True, text=True, timeout=300,
                              env=os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}", "OUT": str(self.output)})
        document = (self.output / "gpu-results.md").read_text()
        with tarfile.open(self.output / "gpu.tgz") as archive:
            self.kept_files = set(archive.getnames())
        rows = (re.fullmatch(r"\| (\w+) \| (.+) \| \d+ of \d+ \|", line) for line in document.splitlines())
        self.outcomes = {row[1]: row[2] for row in rows if row}
        return done, document

    def test_programs_that_were_brought_along(self):
        self.pack()
        (self.bin / "compute-sanitizer").write_text(SANITIZER)
        (self.bin / "ncu").write_text(NCU)
        done, document = self.rehearse()
        self.assertEqual((done.returncode, done.stderr), (0, ""), document + done.stdout)
        names = ["unpack", "probe", "comparison", "ranks", "benches", "torch", "tests", "memcheck", "profile", "racecheck"]
        self.assertEqual([name for name in self.outcomes if name in names], names)
        skipped = {"torch": "skipped: PyTorch cannot be imported", "ranks": "skipped: NCCL connects CUDA devices"}
        for name in names:
            self.assertEqual(self.outcomes[name], skipped.get(name, "done"), document)
        for line in ("| comparison | 2 | 0 | 0 | 0.0 |", "| optim | 2 | 0 | 0 | 0.0 |", "## Benches: attention",
                     "| memcheck | 0 errors in 2 of 2 processes |", "| racecheck | 0 errors in 2 of 2 processes |",
                     "| softmax_lines | 12.50 us |  | 80.1 |  |  |  |"):
            self.assertIn(line, document.splitlines())
        self.assertIn("./programs", self.kept_files)
        self.assertTrue(done.stdout.endswith("in gpu.tgz all logs and numbers\n"))
        self.assertFalse((self.root / "docs/project/gpu-results.md").exists())

    def test_a_bench_that_fails_and_one_that_is_not_there(self):
        self.pack(faults=["attention"])
        done, _ = self.rehearse()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.outcomes["benches"], "failed (status 1)")
        for group in ("parts", "gpt2"):
            self.assertIn(f"gpu_bench has no table {group}\n", done.stdout)
        self.assertIn("gpu_bench --only attention ended with status 1", done.stdout)
        self.assertEqual(self.outcomes["tests"], "done")

    def expect_build(self, why):
        done, document = self.rehearse("--seconds", "60")
        self.assertEqual(done.returncode, 1, document)
        self.assertEqual(self.outcomes["probe"], f"skipped: {why}")
        self.assertTrue(self.outcomes["build"].startswith("failed"), document)
        self.assertRegex(done.stdout, "(meson|ninja) was called")
        self.assertIn("there is no build/gpu/tests/device_tests", done.stdout)
        self.assertNotIn("./programs", self.kept_files)

    def test_builds_when_a_program_does_not_start(self):
        self.pack(starts=127)
        self.expect_build("tests/device_tests does not start here")

    def test_builds_when_sources_have_changed(self):
        self.pack()
        self.write("backend/new.cpp", "int x;\n")
        self.expect_build("what was brought along is of other sources")

    def test_builds_when_nothing_was_brought_along(self):
        self.expect_build("no programs were brought along")

    def test_stages_have_no_more_than_their_time(self):
        self.pack()
        self.write("tools/run_test_cases.py", "#!/bin/sh\nsleep 100\n")
        done, _ = self.rehearse("--seconds", "12")
        self.assertEqual(done.returncode, 1)
        self.assertEqual((self.outcomes["comparison"], self.outcomes["tests"]), ("out of time", "out of time"))


LDD = """#!/bin/sh
cat <<TEXT
\tlinux-vdso.so.1 (0x00007ffd8a9f2000)
\tlibcudart.so.13 => /usr/local/cuda/lib64/libcudart.so.13 (0x00007f2c3f000000)
\tlibcublasLt.so.13 => not found
\tlibfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x00007f2c3f000000)
\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f2c3f000000)
\tlibcrypto.so.3 => /lib/x86_64-linux-gnu/libcrypto.so.3 (0x00007f2c3f000000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2c3f000000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f2c4f4d2000)
TEXT
"""


class Pack(unittest.TestCase):
    def test_names_what_a_program_may_not_need(self):
        functions = (ROOT / "tools/dev/pack_gpu.sh").read_text().split("\ncase ${1:-}")[0]
        with tempfile.TemporaryDirectory() as folder:
            ldd = pathlib.Path(folder, "ldd")
            ldd.write_text(LDD)
            ldd.chmod(0o755)
            done = subprocess.run(["bash", "-c", functions + "\nforeign_libraries program"], capture_output=True, text=True,
                                  cwd=ROOT, env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual((done.stdout, done.stderr), ("libfmt.so.9\nlibcrypto.so.3\n", ""))


class Fingerprint(unittest.TestCase):
    def test_changes_with_sources_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)

            def now():
                return subprocess.run([sys.executable, ROOT / "tools/source_fingerprint.py", root], capture_output=True,
                                      text=True, check=True).stdout

            for name in ("backend/a.cpp", "build/b.cpp", "build-x/c.cpp", "runs/d.h", "README.md", ".git/e.h"):
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text("1")
            first = now()
            for name in ("build/b.cpp", "build-x/c.cpp", "runs/d.h", "README.md", ".git/e.h"):
                (root / name).write_text("2")
            self.assertEqual(now(), first)
            (root / "backend/a.cpp").write_text("2")
            self.assertNotEqual(now(), first)
            (root / "backend/a.cpp").write_text("1")
            self.assertEqual(now(), first)
            (root / "backend/a.cpp").rename(root / "backend/f.cpp")
            self.assertNotEqual(now(), first)


if __name__ == "__main__":
    unittest.main()
