#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site in build/site/html: guides and explanations by MkDocs, every public symbol by Doxygen.

usage: build_site.py [FOLDER]   in FOLDER instead of build/site; ./dev docs calls it with the Python that has MkDocs

Documents lie in the site as they do in the project, so that one link holds in both. Files of the project that they link
are part of it; a linked folder is a page that lists its files. A link that leads nowhere, also one to a heading, ends it
with status 1, as does a document that mkdocs.yml does not list, a public header without a page, or one more public member
without a text.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import header_comments  # noqa: E402
import include_paths  # noqa: E402

LINK = re.compile(r"(\]\(|\b(?:src|srcset)=\")([^)\s#\"]+)(#[^)\s]*)?(?=[)\s\"])")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
STYLE = "tools/documents/site.css"
# An X-macro list, of which Doxygen makes nothing.
NOT_PARSED = {"backend/kernel_list.h"}
# Public members without a text in the reference. The number may only fall: a new one has a comment.
WITHOUT_TEXT = 2009
# What needs none: it destroys, copies or moves, is defaulted or deleted, or overrides what has one.
SPEAKS_FOR_ITSELF = re.compile(r"~|operator=\((?:const )?\w+ ?&&?\w*\)|(\w+)\((?:const )?\1 ?&&?\w*\)|.*(?:=\s*(?:default|delete)|\boverride)\b")


class Fault(Exception):
    """What keeps the site from being built."""


def documents(root):
    """Paths of all documents: the project's own, docs/ and what lies beside the examples."""
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.md")]
    return sorted(path.relative_to(root).as_posix() for path in found)


def title(text):
    """The first heading of a document."""
    return re.search(r"^# (.*)$", text, re.MULTILINE)[1]


def listing(root, folder):
    """A page that lists a folder's files."""
    lines = [f"# {folder}", ""]
    for path in sorted((root / folder).iterdir()):
        if path.is_file():
            name = title(path.read_text()) if path.suffix == ".md" else f"`{path.name}`"
            lines.append(f"- [{name}]({path.name})")
    return "\n".join([*lines, ""])


class Pages:
    """What MkDocs reads: documents, and the files that they link, each where it lies in the project."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.left = [*documents(root), STYLE]

    def write(self):
        seen = set()
        while self.left:
            name = self.left.pop()
            if name in seen:
                continue
            seen.add(name)
            path, to = self.root / name, self.folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                to.write_text(self.linked(name, path.read_text() if path.is_file() else listing(self.root, os.path.dirname(name))))
            else:
                shutil.copy(path, to)

    def linked(self, name, text):
        """The text, of which links to folders lead to their pages. Adds what it links to what is left."""

        def follow(found):
            target = os.path.normpath(os.path.join(os.path.dirname(name), found[2]))
            if "://" in found[2] or target.startswith("..") or not (self.root / target).exists():
                if "src" in found[1]:
                    raise Fault(f"{name}: there is no {found[2]}")
                return found[0]  # MkDocs refuses what leads nowhere
            page = target + "/README.md" if (self.root / target).is_dir() else target
            self.left.append(page)
            return found[1] + os.path.relpath(page, os.path.dirname(name) or ".") + (found[3] or "")

        parts = CODE.split(text)
        return "".join(part if number % 2 else LINK.sub(follow, part) for number, part in enumerate(parts))


def write_reference(root, folder, pages, symbols):
    """Runs Doxygen, which lists the symbols in the file `symbols`."""
    headers = sorted(include_paths.with_included(root, include_paths.listed(root / include_paths.LIST)) - NOT_PARSED)
    include, xml_folder = folder / "include", folder / "xml"
    for header in headers:
        (include / "tutti" / header).parent.mkdir(parents=True, exist_ok=True)
        (include / "tutti" / header).write_text(header_comments.with_comments(root, header))
    inputs = ["tools/documents/reference.md", *(f"{include}/tutti/{header}" for header in headers)]
    settings = (root / "tools/documents/Doxyfile").read_text()
    settings += f"INPUT = {' '.join(inputs)}\nINCLUDE_PATH = {include} include\nSTRIP_FROM_PATH = {include}\nSTRIP_FROM_INC_PATH = {include}\n"
    settings += f"OUTPUT_DIRECTORY = {pages}\nXML_OUTPUT = {xml_folder}\nGENERATE_TAGFILE = {symbols}\n"
    subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=root, check=True, stderr=subprocess.DEVNULL)
    tree = xml.etree.ElementTree.parse(symbols)
    there = {each.findtext("path") + each.findtext("name") for each in tree.iter("compound") if each.get("kind") == "file"}
    if missing := [header for header in headers if f"{include}/tutti/{header}" not in there]:
        raise Fault(f"the reference lacks {', '.join(missing)}")
    bare = without_text(xml_folder)
    (folder / "without_text.txt").write_text("\n".join([*bare, ""]))
    if len(bare) > WITHOUT_TEXT:
        raise Fault(f"{len(bare)} public members have no text in the reference, {WITHOUT_TEXT} had none before: give new ones a comment ({folder}/without_text.txt lists all)")


def without_text(folder):
    """Public members that the reference has no text of, each once, by its header."""
    members = {}
    for path in folder.glob("*.xml"):
        for member in xml.etree.ElementTree.parse(path).iter("memberdef"):
            texts = [member.find(each) for each in ("briefdescription", "detaileddescription", "inbodydescription")]
            named = member.findtext("name") + (member.findtext("argsstring") or "")
            if member.get("prot") == "public" and not any("".join(text.itertext()).strip() for text in texts) and not SPEAKS_FOR_ITSELF.match(named):
                members[member.get("id")] = f"{member.find('location').get('file')}: {member.findtext('qualifiedname') or named}"
    return sorted(members.values())


def build(root, folder):
    """Builds the site of the project `root` below the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pages, symbols = folder / "pages", folder / "symbols.xml"
    pages.mkdir(parents=True)
    Pages(root, pages).write()
    print("Doxygen reads the headers", flush=True)
    write_reference(root, folder, pages, symbols)
    print("MkDocs makes the pages", flush=True)
    # Not --quiet: what it does not say, it does not count either.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", root / "tools/documents/mkdocs.yml"]
    told = {"SITE_PAGES": str(pages), "SITE_HTML": str(folder / "html"), "SITE_SYMBOLS": str(symbols), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=os.environ | told, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
        raise Fault("\n".join(["MkDocs refuses the documents:", *said]))


def main(arguments):
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0] if arguments else ROOT / "build/site").resolve()
    try:
        build(ROOT, folder)
    except (Fault, OSError, subprocess.CalledProcessError) as fault:
        print(f"docs: {fault}", file=sys.stderr)
        return 1
    print(f"docs: {folder}/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
