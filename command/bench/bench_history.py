# SPDX-License-Identifier: Apache-2.0
"""Shows what benches took in one run after the other.

usage: tutti bench history [--filter REGEX] FILE_OR_FOLDER...

Files of `tutti bench` or of programs with <tutti/bench.h>, and all such files of a folder, by the time of their runs: for
each bench a line a run, with the median time, what it is of the time in the run before, and its ratio to a baseline.
"""

import pathlib
import re
import statistics
import sys

import compare_benches


def find_files(names):
    for name in names:
        path = compare_benches.from_caller(name)
        yield from sorted(path.glob("*.json")) if path.is_dir() else [compare_benches.find_file(name)]


def describe(context):
    label = context.get("label") or context.get("commit", "")[:7]
    return f"{context.get('time', context.get('date', ''))[:19]:<19}  {label}".rstrip()


def show(runs, pattern):
    """Whether any bench matched."""
    names = list(dict.fromkeys(name for _, samples in runs for name, _ in samples if pattern.search(name)))
    width = max(len(describe(context)) for context, _ in runs)
    for name in names:
        print(name)
        before = None
        for context, samples in runs:
            if (name, "time") not in samples:
                continue
            seconds = statistics.median(samples[name, "time"])
            line = f"  {describe(context):<{width}}  {compare_benches.time_text(seconds):>9}"
            line += f"  {seconds / before:6.3f}" if before else " " * 8
            if (name, "ratio") in samples:
                line += f"  {statistics.median(samples[name, 'ratio']):.3f} of its baseline"
            print(line.rstrip())
            before = seconds
    return bool(names)


def main(arguments):
    if "-h" in arguments or "--help" in arguments:
        print(__doc__.strip())
        return 0
    pattern, names = ".", []
    rest = iter(arguments)
    try:
        for word in rest:
            if word == "--filter" or word.startswith("--filter="):
                pattern = word.partition("=")[2] if "=" in word else next(rest, "")
            elif word.startswith("-"):
                raise compare_benches.Refused(f"unknown option '{word}'")
            else:
                names.append(word)
        if not names:
            raise compare_benches.Refused("files or folders are needed")
        runs = sorted((compare_benches.read(path) for path in find_files(names)),
                      key=lambda run: run[0].get("time", run[0].get("date", "")))
        if not runs or not show(runs, re.compile(pattern)):
            raise compare_benches.Refused("there is no such bench" if runs else "there are no files of benches")
    except re.error:
        print(f"bench history: '{pattern}' is no regular expression", file=sys.stderr)
        return 2
    except compare_benches.Refused as refused:
        print(f"bench history: {refused}", file=sys.stderr)
        return 2
    return 0
