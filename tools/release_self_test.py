#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/release.py in small repositories, which have the files that carry the version: what it changes, and what it refuses."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import release

FILES = [".gitignore", "meson.build", "version.h", "c_api.h", "c_api/released.abi", "docs/guides/embedding.md", "tools/c_abi.py",
         "tools/release.py", "tools/dev/consumers.sh", "tests/consumers/meson/meson.build"]
CHANGES = "### Added\n\n- What is new.\n  It has two lines.\n"
CHANGELOG = f"# Changelog\n\nNewest first.\n\n## Unreleased\n\n{CHANGES}"
WAITING = "tutti (0.0.1) UNRELEASED; urgency=low\n\n  * First things.\n\n -- Somebody <a@localhost>  Fri, 27 Nov 2026 08:00:00 +0000\n"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1",
    **{f"GIT_{who}_{what}": "a@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}

NOW = release.current_version()
MAJOR, MINOR, PATCH = release.numbers(NOW)
NEXT_PATCH = f"{MAJOR}.{MINOR}.{PATCH + 1}"
NEXT_SERIES = f"0.{MINOR + 1}.0" if MAJOR == 0 else f"{MAJOR + 1}.0.0"
SERIES, NEW_SERIES = release.parts(NOW)["series"], release.parts(NEXT_SERIES)["series"]


class Releases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.kept.name) / "model"
        for name in FILES + [str(path.relative_to(release.ROOT)) for path in (release.ROOT / "debian").iterdir() if path.is_file()]:
            (cls.model / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(release.ROOT / name, cls.model / name)
        (cls.model / "CHANGELOG.md").write_text(CHANGELOG)
        (cls.model / "debian/changelog").write_text(WAITING)
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=cls.model, env=ENVIRONMENT, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.kept.cleanup()

    def setUp(self):
        self.root = pathlib.Path(self.kept.name) / self._testMethodName
        shutil.copytree(self.model, self.root)
        self.commit()

    def git(self, *arguments):
        done = subprocess.run(["git", *arguments], cwd=self.root, env=ENVIRONMENT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Something")

    def write(self, name, text):
        (self.root / name).write_text(text)
        self.commit()

    def read(self, name):
        return (self.root / name).read_text()

    def release(self, *arguments):
        return subprocess.run([self.root / "tools/release.py", *arguments], cwd="/", env=ENVIRONMENT, capture_output=True, text=True)

    def done(self, *arguments):
        done = self.release(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def assert_refused(self, words, *arguments):
        before = self.git("status", "--porcelain"), self.git("log")
        done = self.release(*arguments)
        self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
        self.assertTrue(done.stderr.startswith("release: "), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual((self.git("status", "--porcelain"), self.git("log")), before)

    def test_the_first_release_has_the_number_that_there_is(self):
        said = self.done(NOW)
        self.assertIn(f"{NOW} is written: CHANGELOG.md, debian/changelog\n", said)
        for step in ("git add --all", "./dev check --full", f"git tag -a v{NOW}"):
            self.assertIn(step, said)
        self.assertRegex(self.read("CHANGELOG.md"),
                         rf"\n\n## Unreleased\n\n## {re.escape(NOW)} \(\d{{4}}-\d\d-\d\d\)\n\n{re.escape(CHANGES)}$")
        self.assertRegex(self.read("debian/changelog"),
                         rf"^tutti \({re.escape(NOW)}\) unstable; urgency=low\n\n  \* First things\.\n\n"
                         r" -- [^\n]+ <[^\n]+>  \w{3}, \d\d \w{3} \d{4} [\d:]{8} \+0000\n$")
        self.assertEqual(self.git("log", "--format=%s"), "Something\n")
        self.assertEqual(self.done("--notes", NOW), CHANGES)

    def test_a_patch(self):
        self.done(NOW, "--commit")
        self.write("CHANGELOG.md", self.read("CHANGELOG.md").replace("## Unreleased\n", "## Unreleased\n\n### Fixed\n\n- A fault.\n"))
        said = self.done(NEXT_PATCH, "--commit")
        self.assertIn(f"{NEXT_PATCH} is committed: ", said)
        self.assertNotIn("git add", said)
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.assertEqual(self.git("log", "--format=%s", "-1"), f"Version {NEXT_PATCH}\n")
        self.assertEqual(self.git("tag"), "")
        self.assertIn(f"version: '{NEXT_PATCH}'", self.read("meson.build"))
        self.assertIn(f"#define TUTTI_VERSION_PATCH {PATCH + 1}\n", self.read("version.h"))
        self.assertIn(f'#define TUTTI_VERSION "{NEXT_PATCH}"\n', self.read("version.h"))
        self.assertIn(f' (regex)"^_Z" {NEXT_PATCH}\n', self.read(f"debian/libtutti{SERIES}.symbols"))
        newest, _, older = self.read("debian/changelog").partition("\n\ntutti ")
        self.assertTrue(newest.startswith(f"tutti ({NEXT_PATCH}) unstable; urgency=medium\n\n  * "), newest)
        self.assertTrue(older.startswith(f"({NOW}) unstable"), older)
        self.assertEqual(self.done("--notes", NEXT_PATCH), "### Fixed\n\n- A fault.\n")
        self.assertEqual(self.done("--notes", NOW), CHANGES)

    def test_another_interface_has_other_names(self):
        self.write("CHANGELOG.md", CHANGELOG + "\n### Removed\n\n- What was deprecated.\n")
        mode = (self.root / "tools/dev/consumers.sh").stat().st_mode
        self.done(NEXT_SERIES)
        self.git("add", "--all")
        self.assertEqual((self.root / "tools/dev/consumers.sh").stat().st_mode, mode)
        names = self.git("ls-files", "debian")
        self.assertIn(f"debian/libtutti{NEW_SERIES}.install\n", names)
        self.assertNotIn(f"libtutti{SERIES}.", names)
        for name, words in {"debian/control": f"Package: libtutti{NEW_SERIES}-mpi\n", ".gitignore": f"/debian/libtutti{NEW_SERIES}/\n",
                            "tests/consumers/meson/meson.build": f"version: '>= {NEW_SERIES}'",
                            "docs/guides/embedding.md": f'dlopen("libtutti.so.{NEW_SERIES}")',
                            "tools/dev/consumers.sh": f"libtutti.so.{NEW_SERIES} -v{NEXT_SERIES} ",
                            f"debian/libtutti{NEW_SERIES}.symbols": f"libtutti.so.{NEW_SERIES} libtutti{NEW_SERIES} "}.items():
            self.assertIn(words, self.read(name), name)
        for name in self.git("ls-files").splitlines():
            if name != "CHANGELOG.md" and not name.startswith("tools/release"):
                self.assertNotRegex(self.read(name), rf"tutti(\.so\.|-)?{re.escape(SERIES)}(?!\.?\d)", name)

    def test_what_is_added_to_the_c_api_is_recorded(self):
        header = self.read("c_api.h")
        count = int(re.search(r"#define TUTTI_C_API_VERSION (\d+)", header)[1])
        self.write("c_api.h", header.replace("const char* tutti_version(void);", "const char* tutti_version(void);\nvoid tutti_more(void);")
                   .replace(f"TUTTI_C_API_VERSION {count}", f"TUTTI_C_API_VERSION {count + 1}"))
        self.done(NEXT_PATCH)
        self.assertIn("tutti_more", self.read("c_api/released.abi"))
        self.assertIn(f"TUTTI_C_API_VERSION {count + 1} ", self.read("c_api/released.abi"))

    def test_a_dry_run_shows_all_and_changes_nothing(self):
        shown = self.done(NEXT_SERIES, "--dry-run")
        self.assertEqual(self.git("status", "--porcelain", "--ignored"), "")
        for words in (f"-  version: '{NOW}',\n+  version: '{NEXT_SERIES}',\n", f"+## {NEXT_SERIES} (", "+++ /dev/null\n",
                      f"+++ b/debian/libtutti{NEW_SERIES}.install\n"):
            self.assertIn(words, shown)
        subprocess.run(["git", "apply"], input=shown, cwd=self.root, env=ENVIRONMENT, check=True, text=True)
        self.assertIn(f"({NEXT_SERIES}) unstable", self.read("debian/changelog"))

    def test_versions_that_are_none_or_not_above(self):
        for version in ("1", "1.2", "1.2.3.4", "1.02.3", "v1.2.3", "1.2.3-rc1", ""):
            self.assert_refused("is no version", version)
        if NOW != "0.0.0":
            self.assert_refused(f"0.0.0 is below {NOW}", "0.0.0")
        self.done(NOW, "--commit")
        self.assert_refused(f"{NOW} is not above {NOW}, the last release", NOW)

    def test_repositories_that_are_not_ready(self):
        (self.root / "new.txt").write_text("")
        self.assert_refused("new.txt", NOW)
        (self.root / "new.txt").unlink()
        self.git("tag", f"v{NOW}")
        self.assert_refused(f"there is a tag v{NOW}", NOW)
        self.git("checkout", "--quiet", "-b", "other")
        self.assert_refused("on main, and this is other", NEXT_PATCH)
        self.git("checkout", "--quiet", "--detach")
        self.assert_refused("on main, and this is no branch", NEXT_PATCH)

    def test_changelogs_that_do_not_fit(self):
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n### Added\n\n")
        self.assert_refused("has nothing under Unreleased", NOW)
        self.write("CHANGELOG.md", "# Changelog\n\n- Something.\n")
        self.assert_refused("has no line '## Unreleased'", NOW)
        self.write("CHANGELOG.md", CHANGELOG + "\n### Removed\n\n- A function.\n")
        self.assert_refused("lists something as Removed", NEXT_PATCH)

    def test_deprecations_say_what_to_use(self):
        self.write("old.h", '#pragma once\n[[deprecated(\n    "use other(x), "\n    "with two, instead")]] void one();\n')
        self.done(NEXT_PATCH, "--dry-run")
        self.write("old.h", '#pragma once\n\n[[deprecated("it is slow")]] void one();\n')
        self.assert_refused("old.h:3: write", NEXT_PATCH)
        self.write("old.h", "#pragma once\nstruct [[deprecated]] Old {};\n")
        self.assert_refused("old.h:2: write", NEXT_PATCH)

    def test_an_interface_that_is_not_compatible(self):
        self.write("c_api.h", self.read("c_api.h").replace("void tutti_group_free(tutti_group* group);", ""))
        self.assert_refused("tutti_group_free", NEXT_PATCH)

    def test_files_that_have_no_place_for_the_number(self):
        self.write("version.h", self.read("version.h").replace("#define TUTTI_VERSION_MINOR", "#define TUTTI_MINOR"))
        self.assert_refused(f"version.h has no '#define TUTTI_VERSION_MINOR {MINOR}'", NEXT_PATCH)

    def test_what_cannot_be_written_changes_nothing(self):
        (self.root / "debian/changelog.release").mkdir()  # which git does not see
        self.assert_refused("debian/changelog.release: File exists; nothing is changed", NEXT_PATCH)

    def test_what_cannot_be_committed_changes_nothing(self):
        hook = self.root / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\necho no, thanks >&2\nexit 1\n")
        hook.chmod(0o755)
        self.assert_refused("no, thanks\nnothing is changed", NEXT_SERIES, "--commit")

    def test_notes_of_no_version(self):
        self.assert_refused("has no version 9.9.9; it has none yet", "--notes", "9.9.9")


if __name__ == "__main__":
    unittest.main()
