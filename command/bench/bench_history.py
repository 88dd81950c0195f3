# SPDX-License-Identifier: Apache-2.0
"""Shows what benches took in one run after the other.

usage: tutti bench history [--filter REGEX] FILE_OR_FOLDER...

Files of `tutti bench` or of programs with <tutti/bench.h>, and all such files of a folder, by the time of their runs: for
each bench a line a run, with the median time, what it is of the time in the run before on such a machine, and its ratio to a baseline.
"""

import datetime
import re
import statistics
import sys

import compare_benches


def find_runs(names):
    """Runs of these files; those of a folder that are no runs are left out, with a line."""
    for name in names:
        folder = compare_benches.from_caller(name)
        if not folder.is_dir():
            yield compare_benches.read(compare_benches.find_file(name))
            continue
        for path in sorted(folder.glob("*.json")):
            try:
                yield compare_benches.read(path)
            except compare_benches.Refused as refused:
                print(f"bench history: left out: {refused}", file=sys.stderr)


def moment(context):
    """When the run was; one that does not say is the first."""
    try:
        found = datetime.datetime.fromisoformat(context.get("time", context.get("date", "")))
    except ValueError:
        found = datetime.datetime.min
    return found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)


def machine(context):
    return context.get("processor"), context.get("cores", context.get("num_cpus"))


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
            # A time of another machine says nothing of this one.
            line += f"  {seconds / before[0]:6.3f}" if before and before[1] == machine(context) else " " * 8
            if compare_benches.has_baseline(samples, name):
                line += f"  {statistics.median(samples[name, 'ratio']):.3f} of its baseline"
            print(line.rstrip())
            before = seconds, machine(context)
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
        runs = sorted(find_runs(names), key=lambda run: moment(run[0]))
        if not runs or not show(runs, re.compile(pattern)):
            raise compare_benches.Refused("there is no such bench" if runs else "there are no files of benches")
    except re.error:
        print(f"bench history: '{pattern}' is no regular expression", file=sys.stderr)
        return 2
    except compare_benches.Refused as refused:
        print(f"bench history: {refused}", file=sys.stderr)
        return 2
    return 0
