#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev where it answers before it installs, configures or compiles anything, in a copy whose every such step fails,
what tools/setup.sh shows, what ./dev check leaves out where CI's time runs out, and what the checks of commits name."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from pseudo_terminal import run_on_terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.kept.name)
        shutil.copy(ROOT / "dev", cls.root)
        shutil.copytree(ROOT / "tools", cls.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "examples/help", cls.root / "examples/help")
        for folder in ("command/bench", "command/report", "benches/peers"):
            shutil.copytree(ROOT / folder, cls.root / folder, ignore=shutil.ignore_patterns("__pycache__"))
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
        self.expect(["demo", "bench", "profile", "check"])
        self.expect(["demo", "bench", "check"], "--help")
        self.expect(["--device cpu|cuda|both"], "test", "--help")
        self.expect(["--full"], "check", "-h")
        self.expect(["--rehearse"], "gpu", "--help")
        models = re.findall(r'Workload k\w+\{\s*"(\w+)"', (ROOT / "benches/models.h").read_text())
        self.assertGreaterEqual(len(models), 9)
        self.expect(["./dev profile", "--shapes", *models], "profile", "--help")
        self.expect(["--list", "OLD NEW", "--peers"], "bench", "--help")
        self.expect(["./dev bench --peers", "--rounds"], "bench", "--peers", "--help")
        self.expect(["RUN...", "--live", "./dev report"], "report", "--help")
        self.expect(["./dev docs", "--serve"], "docs", "--help")

    def test_options_of_the_examples(self):
        self.expect(["./dev demo [OPTIONS]", "--epochs"], "demo", "--help")
        self.expect(["./dev demo [OPTIONS]", "--epochs"], "demo", "digits", "--epochs", "3", "-h")
        self.expect(["./dev demo text", "--temperature"], "demo", "text", "--help")
        self.expect(["./dev demo recommender", "--impressions"], "demo", "recommender", "--help")
        self.expect(["./dev demo resume", "--kills"], "demo", "resume", "--help")

    def test_whatever_else_prepares_first(self):
        for arguments in (["demo"], ["profile", "--trace", "t.json"], ["bench", "--peers", "--only", "step", "--models", "mlp", "--threads", "1,2"]):
            done = subprocess.run([self.root / "dev", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 99, arguments)
            self.assertIn("setup.sh was called", done.stderr)

    def test_reports_that_mean_nothing_are_refused_first(self):
        for arguments, text in (([], "a RUN is missing"), (["--port", "1", "x"], "--port is of --live")):
            done = subprocess.run([self.root / "dev", "report", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(text, done.stderr)
            self.assertNotIn("setup.sh was called", done.stderr)

    def test_peers_that_mean_nothing_are_refused_first(self):
        for arguments, text in ((["--threads", "zero"], "--threads wants numbers"), (["--only", "bench"], "invalid choice"),
                                (["--types", "f16"], "--types wants f32"), (["--rounds", "0"], "--rounds wants 1"),
                                (["--variants", "("], "argument --variants: '(' is no regular expression"),
                                (["--models", "*"], "argument --models: '*' is no regular expression"),
                                (["--output", "dev"], f"cannot make the folder {self.root}/dev: File exists"),
                                (["--only", "devices", "--models", "resnet"], "nothing is left to compare")):
            done = subprocess.run([self.root / "dev", "bench", *arguments, "--peers"], capture_output=True, text=True,
                                  timeout=60, cwd=self.root)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(text, done.stderr)
            self.assertNotIn("setup.sh was called", done.stderr)

    def test_docs_say_how_far_they_are_and_what_is_wrong(self):
        setup, calls, python = self.root / "tools/setup.sh", (self.root / "tools/setup.sh").read_text(), self.root / "build/docs/bin/python3"
        self.addCleanup(setup.write_text, calls)
        self.addCleanup(shutil.rmtree, self.root / "build")
        setup.write_text("#!/bin/sh\n")
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho $1; sleep 1.6; echo where it is\n")
        python.chmod(0o755)
        status, said = run_on_terminal([self.root / "dev", "docs"], columns=120)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\rdocs: building the site: [12] s, about 10 s left; tools/documents/build_site.py *\r *\rwhere it is\r\n$")
        python.write_text("#!/bin/sh\necho begun; echo a link leads nowhere >&2; exit 1\n")
        done = subprocess.run([self.root / "dev", "docs"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "begun\na link leads nowhere\n"))

    def test_peers_without_pytorch_say_how_to_go_on(self):
        setup, calls = self.root / "tools/setup.sh", (self.root / "tools/setup.sh").read_text()
        self.addCleanup(setup.write_text, calls)
        setup.write_text("#!/bin/sh\n")
        done = subprocess.run([self.root / "dev", "bench", "--peers", "--only", "step"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("PyTorch is missing", done.stderr)
        self.assertIn("'--only all_reduce'", done.stderr)


APT = """#!/bin/sh
echo "$*" >>"{root}/calls"
case "$*" in *" python3"*) ln -s {python} "{root}/bin/python3" ;; esac
case "$*" in *Status-Fd=3*) echo pmstatus:pkg:50.0:Unpacking >&3; echo heard; sleep 1.6 ;; esac
exit {status}
"""


class Setup(unittest.TestCase):
    """tools/setup.sh on a machine that has nothing, not even Python."""

    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.root = pathlib.Path(kept.name)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (self.root / "bin").mkdir()
        for name in ("bash", "sh", "env", "mktemp", "cat", "tail", "grep", "rm", "ln", "sleep"):
            (self.root / "bin" / name).symlink_to(shutil.which(name))
        self.program("id", "#!/bin/sh\necho 0\n")
        self.program("dpkg", "#!/bin/sh\necho amd64\n")
        self.program("dpkg-query", "#!/bin/sh\nexit 1\n")

    def program(self, name, text):
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def set_up(self, status=0):
        self.program("apt-get", APT.format(root=self.root, python=sys.executable, status=status))
        command = ["/bin/bash", "-c", 'cd "$1" && PATH=$1/bin exec tools/setup.sh mpi', "bash", self.root]
        return run_on_terminal(command, columns=120)

    def test_installs_python_first_and_then_says_how_far_it_is(self):
        status, said = self.set_up()
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"^setup: installing libopenmpi-dev openmpi-bin\r\n\rsetup: installing packages: 75 %, \d s, about 10 s left; Unpacking")
        calls = [call for call in (self.root / "calls").read_text().splitlines() if "install" in call]
        self.assertTrue(calls[0].endswith("--no-install-recommends python3"), calls)
        self.assertIn("--no-install-recommends libopenmpi-dev openmpi-bin -o APT::Status-Fd=3", calls[1])
        self.assertEqual(len(calls), 2)

    def test_what_apt_said_is_told_when_it_fails(self):
        (self.root / "bin/python3").symlink_to(sys.executable)
        status, said = self.set_up(status=100)
        self.assertEqual(status, 1)
        self.assertIn("heard\r\n", said)
        self.assertNotIn("pmstatus", said)


class TimeLeft(unittest.TestCase):
    def ask(self, began, until):
        """The output of the function that ./dev check asks, where seconds from now are set or None is."""
        check = (ROOT / "tools/dev/check.sh").read_text()
        function = check[check.index("left_out=()"):check.index("project_sources()")]
        times = "" if began is None else f"now=$(date +%s); TUTTI_CHECK_BEGAN=$((now - {began})) TUTTI_CHECK_UNTIL=$((now + {until}))"
        script = f"""skipped=0; {function}
            {times}
            has_time A 55 && echo A; has_time B 35 && echo B; echo "$skipped skipped: ${{left_out[*]}}" """
        return subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True).stdout

    def test_what_does_not_end_in_time_is_told_and_counted(self):
        self.assertEqual(self.ask(1000, 600), "A\nB\n0 skipped: \n")
        told = self.ask(1000, 400)
        self.assertRegex(told, r"^-- A: left out, it takes about 5\d\d s here, and (400|39\d) s are left\nB\n1 skipped: A\n$")
        self.assertRegex(self.ask(1000, 300), r"\n2 skipped: A B\n$")

    def test_without_a_limit_all_is_run(self):
        self.assertEqual(self.ask(None, None), "A\nB\n0 skipped: \n")


class Commits(unittest.TestCase):
    def test_files_and_folders_that_checks_of_commits_name_are_there(self):
        """Paths of .pre-commit-config.yaml: what is run, and patterns that name one file (`^a\\.md$`) or folder (`^a/`)."""
        text = (ROOT / ".pre-commit-config.yaml").read_text().replace("\\.", ".")
        named = re.findall(r"(?:entry: |\^)([\w.]+[/.][\w./]*)", text)
        self.assertGreaterEqual(len(named), 15)
        self.assertEqual([path for path in named if not (ROOT / path).exists()], [])


if __name__ == "__main__":
    unittest.main()
