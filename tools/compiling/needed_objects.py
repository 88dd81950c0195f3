#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds an example from the objects that it needs, a good half of the library's, without making the archives.

usage: needed_objects.py FOLDER EXAMPLE --objects          what ninja has to make: objects of examples/needed/EXAMPLE.txt
       needed_objects.py FOLDER EXAMPLE --link PROGRAM     links them; fails when the list lacks one that is needed
       needed_objects.py FOLDER EXAMPLE --check            compares the list with what the linker took out of the archives
       needed_objects.py FOLDER EXAMPLE --write            writes the list anew, from what the linker took

FOLDER is a folder configured without -Dunity; --check and --write want EXAMPLE built there. A list that lacks a source costs time
and nothing else, for whoever calls builds the whole target then. What is needed of CUDA alone is never listed.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMBER = re.compile(r"^(\S+\.o)(?:\s|$)", re.MULTILINE)  # of the map's first part: what an archive gave, and for whom
ONLY_CUDA = ("backend/cuda/", "distributed/engines/cuda_engines.cpp", "distributed/engines/nccl/", "distributed/engines/peer/")


class Example:
    """What ninja would do to build it."""

    def __init__(self, folder, name):
        self.folder, self.target = folder, f"examples/{name}"
        self.list = ROOT / f"examples/needed/{name}.txt"
        subprocess.run(["ninja", "-C", folder, "build.ninja"], capture_output=True)  # may be older than its sources
        done = subprocess.run(["ninja", "-C", folder, "-t", "commands", self.target], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"needed_objects: {done.stderr.strip()}")
        commands = [shlex.split(line) for line in done.stdout.splitlines() if line.strip()]
        self.link = commands[-1]
        self.objects = {self.source(words[-1]): words[words.index("-o") + 1]
                        for words in commands if "-c" in words and "-o" in words}
        self.archives = [word for word in self.link if word.endswith(".a") and not word.startswith("/")]

    def source(self, path):
        """A source as its path in the repository."""
        path = (self.folder / path).resolve()
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

    def own(self):
        return [word for word in self.link if word.endswith(".o")]

    def listed(self):
        """Objects of the list, of sources that there still are."""
        sources = self.list.read_text().split() if self.list.exists() else []
        return [self.objects[source] for source in sources if source in self.objects]

    def run_link(self, words, output):
        words = list(words)
        words[words.index("-o") + 1] = str(output)
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True)

    def taken(self):
        """Sources whose objects the linker takes out of the archives."""
        with tempfile.TemporaryDirectory() as kept:
            done = self.run_link([*self.link, f"-Wl,-Map={kept}/map"], f"{kept}/program")
            if done.returncode != 0:
                raise SystemExit(f"needed_objects: {self.target} cannot be linked:\n{done.stderr}")
            map_text = (pathlib.Path(kept) / "map").read_text()
        needed = set(MEMBER.findall(map_text))
        return sorted(source for source, made in self.objects.items()
                      if made in needed and made not in self.own() and not source.startswith(ONLY_CUDA))


def link(example, program):
    """Links the objects to a file in the build folder; does nothing when that is newer than all of them."""
    objects = example.listed()
    made = example.folder / program
    newest = max((example.folder / part).stat().st_mtime for part in [*objects, *example.own()])
    if made.exists() and made.stat().st_mtime > newest:
        return 0
    first = example.link.index(example.archives[0])
    words = [word for word in example.link[:first] if word not in example.archives]
    words += [*objects, *(word for word in example.link[first:] if word not in example.archives)]
    # What archives are searched for, and is left out without a word when nothing has it.
    words = [word.replace("-Wl,--undefined=", "-Wl,--require-defined=") for word in words]
    done = example.run_link(words, program)
    if done.returncode != 0:
        missing = sorted(set(re.findall(r"(?:undefined reference to|required symbol) `([^']*)'", done.stderr)))
        print(f"{example.list.relative_to(ROOT)} lacks something that {example.target} needs, "
              f"{missing[0] if missing else done.stderr[-500:]} for one", file=sys.stderr)
        return 1
    return 0


def check(example):
    taken, listed = set(example.taken()), set(example.list.read_text().split())
    differences = [*(f"lacks {source}" for source in sorted(taken - listed)),
                   *(f"has {source}, which is not needed" for source in sorted(listed - taken))]
    for difference in differences:
        print(f"{example.list.relative_to(ROOT)} {difference}")
    if differences:
        print(f"write it anew: tools/compiling/needed_objects.py {example.folder} {example.target.split('/')[1]} --write")
    print(f"{example.target} takes {len(taken)} of {len(example.objects) - len(example.own())} objects")
    return 1 if differences else 0


def main(arguments):
    if len(arguments) not in (3, 4) or (len(arguments) == 4) != (arguments[2] == "--link"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    example = Example(pathlib.Path(arguments[0]), arguments[1])
    if arguments[2] == "--objects":
        print(*example.own(), *example.listed(), sep="\n")
    elif arguments[2] == "--link":
        return link(example, arguments[3])
    elif arguments[2] == "--check":
        return check(example)
    elif arguments[2] == "--write":
        example.list.parent.mkdir(exist_ok=True)
        example.list.write_text("\n".join(example.taken()) + "\n")
    else:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
