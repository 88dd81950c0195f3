#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepares a release: the changelog, all numbers, Debian's changelog and the binary interface of the C API.

usage: release.py VERSION             checks what docs/project/versions.md asks of a release, changes the files, says what comes next
       release.py VERSION --commit    commits them, too
       release.py VERSION --dry-run   shows the changes as a diff, and makes none
       release.py --notes VERSION     prints what CHANGELOG.md says of a version

Everything is checked and computed before the first file is written, so a release that is refused changes nothing. Nothing is
ever tagged or pushed.
"""

import argparse
import datetime
import difflib
import email.utils
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import c_abi

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHANGELOG, DEBIAN_CHANGELOG, RELEASED = "CHANGELOG.md", "debian/changelog", "c_api/released.abi"
# Texts that have the whole number; {series} is what interfaces are named by: 0.1, and from 1.0 on 1.
PLACES = (
    ("meson.build", "version: '{version}'"),
    ("version.h", "#define TUTTI_VERSION_MAJOR {major}\n"),
    ("version.h", "#define TUTTI_VERSION_MINOR {minor}\n"),
    ("version.h", "#define TUTTI_VERSION_PATCH {patch}\n"),
    ("version.h", '#define TUTTI_VERSION "{version}"\n'),
    ("c_api.h", 'The library\'s version: "{version}".'),
    ("docs/guides/embedding.md", '`TUTTI_VERSION` ("{version}")'),
    ("tools/dev/consumers.sh", "libtutti.so.{series} -v{version} "),
    ("debian/libtutti{series}.symbols", '(regex)"^_Z" {version}\n'),
    ("debian/libtutti{series}.symbols", '(regex)"^tutti_" {version}\n'),
)
# Words before a series, in any file but those that tell of the past, and this script's.
SERIES_WORDS = r"(libtutti|libtutti\.so\.|tutti-|Tutti |version: |version: '>= )"
PAST = (CHANGELOG, DEBIAN_CHANGELOG, RELEASED, "docs/decisions", "tools/release.py", "tools/release_self_test.py")
UNRELEASED = "## Unreleased\n"
DEBIAN_ENTRY = re.compile(r"tutti \([^)]*\) UNRELEASED; (urgency=\w+\n\n.*?\n\n -- )[^\n]*\n", re.DOTALL)
BARE_DEPRECATION = re.compile(r'\[\[deprecated(?!\(\s*"use (?:(?!\]\]).)*\binstead\b)', re.DOTALL)


class Fault(Exception):
    pass


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Fault(f"git {arguments[0]}: {(done.stderr + done.stdout).strip()}")
    return done.stdout


def files_with(text, *where):
    done = subprocess.run(["git", "grep", "-l", "-I", "-F", "-e", text, "--", *where], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines()


def read(path):
    try:
        return (ROOT / path).read_bytes().decode()
    except OSError as error:
        raise Fault(f"{path}: {error.strerror}") from None


# --- versions

def numbers(version):
    found = re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", version)
    if not found:
        raise Fault(f"'{version}' is no version: one is three numbers, MAJOR.MINOR.PATCH")
    return tuple(map(int, found.groups()))


def parts(version):
    """The words of PLACES."""
    major, minor, patch = numbers(version)
    return {"version": version, "series": f"0.{minor}" if major == 0 else f"{major}", "major": major, "minor": minor, "patch": patch}


def current_version():
    found = re.search(r"version: '([^']*)'", read("meson.build"))
    if not found:
        raise Fault("meson.build has no version")
    return found[1]


def sections(changelog):
    """The changelog's parts, by what follows `## `: "Unreleased", "0.1.0 (2027-01-31)"."""
    _, *rest = re.split(r"^## (.*)\n", changelog, flags=re.MULTILINE)
    return dict(zip(rest[::2], rest[1::2]))


def released_versions(changelog):
    """What each released version says, by its number."""
    return {title.split(" ")[0]: text for title, text in sections(changelog).items() if title != "Unreleased"}


# --- what a release needs

def check_version(version, changelog):
    current, released = current_version(), released_versions(changelog)
    if released and numbers(version) <= max(map(numbers, released)):
        raise Fault(f"{version} is not above {max(released, key=numbers)}, the last release of {CHANGELOG}")
    if numbers(version) < numbers(current):
        raise Fault(f"{version} is below {current}, the version of meson.build")


def check_repository(version):
    if changed := git("status", "--porcelain"):
        raise Fault(f"there are changes that are not committed:\n{changed.rstrip()}")
    if (branch := git("branch", "--show-current").strip()) != "main":
        raise Fault(f"releases are made on main, and this is {branch or 'no branch'}")
    if git("tag", "--list", f"v{version}"):
        raise Fault(f"there is a tag v{version}")


def check_unreleased(version, changelog):
    text = sections(changelog).get("Unreleased")
    if text is None:
        raise Fault(f"{CHANGELOG} has no line '{UNRELEASED.strip()}'")
    if not re.search(r"^- ", text, re.MULTILINE):
        raise Fault(f"{CHANGELOG} has nothing under Unreleased")
    major, minor, patch = numbers(version)
    if re.search(r"^### Removed$", text, re.MULTILINE) and (patch or (major and minor)):
        raise Fault(f"{CHANGELOG} lists something as Removed, for which {version} is no version (docs/project/versions.md, Deprecation)")


def check_deprecations():
    for path in files_with("[[deprecated", "*.h"):
        text = read(path)
        if found := BARE_DEPRECATION.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise Fault(f'{path}:{line}: write [[deprecated("use ... instead")]] (docs/project/versions.md, Deprecation)')


def recorded_interface(header):
    """The binary interface of the C API, which has to be compatible with the last release's."""
    try:
        if said := c_abi.differences(ROOT / RELEASED, header):
            raise Fault(f"the C API is not compatible with the last release:\n{said.strip()}")
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "released.abi"
            c_abi.record(header, output)
            return output.read_text()
    except c_abi.Fault as fault:
        raise Fault(f"c_abi: {fault}") from None
    except FileNotFoundError as error:
        raise Fault(f"{error.filename} is missing: tools/setup.sh build check installs it") from None


# --- what it changes

def debian_changelog(text, version, now):
    """An entry that waits as UNRELEASED becomes the version's; else there is a new one."""
    maintainer = re.search(r"^Maintainer: (.*)$", read("debian/control"), re.MULTILINE)
    if not maintainer:
        raise Fault("debian/control has no Maintainer")
    signature = f"{maintainer[1]}  {email.utils.format_datetime(now)}\n"
    if waiting := DEBIAN_ENTRY.match(text):
        return f"tutti ({version}) unstable; {waiting[1]}{signature}{text[waiting.end():]}"
    return f"tutti ({version}) unstable; urgency=medium\n\n  * New version: CHANGELOG.md says what is new.\n\n -- {signature}\n{text}"


def release_files(version, now):
    """Contents of all files that a release changes, by path; None: the file goes."""
    before, after = parts(current_version()), parts(version)
    texts = {}

    def text_of(path):
        return texts.get(path) or read(path)

    for path, place in PLACES:
        path, old = path.format(**before), place.format(**before)
        if old not in text_of(path):
            raise Fault(f"{path} has no '{old.strip()}'")
        texts[path] = text_of(path).replace(old, place.format(**after), 1)
    if before["series"] != after["series"]:
        word = re.compile(SERIES_WORDS + re.escape(before["series"]) + r"(?!\.?\d)")
        renamed = r"\g<1>" + after["series"]
        for path in files_with(before["series"], ".", *(f":!{each}" for each in PAST)):
            texts[path] = word.sub(renamed, text_of(path))
        for path in git("ls-files", "debian").splitlines():
            if word.search(path):
                texts[word.sub(renamed, path)] = text_of(path)
                texts[path] = None
    texts[CHANGELOG] = read(CHANGELOG).replace(UNRELEASED, f"{UNRELEASED}\n## {version} ({now:%Y-%m-%d})\n", 1)
    texts[DEBIAN_CHANGELOG] = debian_changelog(read(DEBIAN_CHANGELOG), version, now)
    texts[RELEASED] = recorded_interface(text_of("c_api.h"))
    return {path: text for path, text in texts.items() if text is None or not (ROOT / path).exists() or text != read(path)}


def difference(files):
    for path, text in files.items():
        old = read(path).splitlines(keepends=True) if (ROOT / path).exists() else []
        yield from difflib.unified_diff(old, (text or "").splitlines(keepends=True), f"a/{path}", f"b/{path}" if text else "/dev/null")


def write(files):
    """Writes all of them, or none: first beside where they belong."""
    beside = {path: ROOT / f"{path}.release" for path, text in files.items() if text is not None}
    written = []
    try:
        for path, place in beside.items():
            with open(place, "xb") as file:
                written.append(place)
                file.write(files[path].encode())
            if (ROOT / path).exists():
                shutil.copymode(ROOT / path, place)
    except OSError as error:
        for place in written:
            place.unlink()
        raise Fault(f"cannot write {error.filename or place}: {error.strerror}; nothing is changed") from None
    for path in files:
        if path in beside:
            os.replace(beside[path], ROOT / path)
        else:
            (ROOT / path).unlink()


def commit(version, files):
    """Commits the files, or puts all back: what was there before is committed."""
    try:
        git("add", "--all", "--", *files)
        git("commit", "--quiet", "--message", f"Version {version}")
    except Fault as fault:
        git("reset", "--quiet", "--hard")
        raise Fault(f"{fault}\nnothing is changed") from None


def release(version, is_dry, commits):
    changelog = read(CHANGELOG)
    check_version(version, changelog)
    check_repository(version)
    check_unreleased(version, changelog)
    check_deprecations()
    files = release_files(version, datetime.datetime.now(datetime.timezone.utc))
    if is_dry:
        sys.stdout.writelines(difference(files))
        return
    write(files)
    if commits:
        commit(version, files)
    print(f"{version} is {'committed' if commits else 'written'}: {', '.join(files)}\nnext:")
    if not commits:
        print(f"  git diff; git add --all; git commit -m 'Version {version}'")
    print(f"  ./dev check --full\n  git tag -a v{version} -m 'Tutti {version}'\n  git push origin main v{version}\n"
          f"  tools/release.py --notes {version}    # what is new, to tell others")


def print_notes(version):
    released = released_versions(read(CHANGELOG))
    if version not in released:
        raise Fault(f"{CHANGELOG} has no version {version}; it has {', '.join(released) or 'none yet'}")
    print(released[version].strip())


def main():
    description, _, rest = __doc__.partition("\n\nusage: ")
    usage, _, epilog = rest.partition("\n\n")
    parser = argparse.ArgumentParser(usage=usage, description=description, epilog=epilog)
    parser.add_argument("version", help=argparse.SUPPRESS)
    action = parser.add_mutually_exclusive_group()
    for option in ("--commit", "--dry-run", "--notes"):
        action.add_argument(option, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.notes:
            print_notes(arguments.version)
        else:
            release(arguments.version, arguments.dry_run, arguments.commit)
    except Fault as fault:
        sys.exit(f"release: {fault}")


if __name__ == "__main__":
    main()
