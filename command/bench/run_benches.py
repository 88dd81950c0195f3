# SPDX-License-Identifier: Apache-2.0
"""Runs the benches of a folder, writes one JSON file for the run, and shows figures beside the machine's limits.

The file is Google Benchmark's own format: what its programs say, joined, each benchmark with the `executable` it came
from, and in `context` also commit, processor, cores, time, options and the limits measured before the first bench. It
is replaced as a whole after each executable, so that a run which is interrupted leaves what had finished by then, with
`complete` false.

The status is 0, 1 if nothing matched or a bench failed, 130 after Ctrl-C.
"""

import datetime
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

from progress_line import ProgressLine, left_of, lines_of, time_text

LIMITS = "machine_limits"
FLOPS, BYTES = "FLOP/s", "bytes_per_second"
AGGREGATE = re.compile(r"_(mean|median|stddev|cv)$")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def processor_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def git(*arguments):
    """Output of a git command where these sources lie; None where they are installed, or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=pathlib.Path(__file__).resolve().parent)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe_run(pattern, passed):
    """What a file says of its run beside Google Benchmark's own context."""
    return {"commit": git("rev-parse", "HEAD") or "unknown",
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
            "processor": processor_model(), "cores": len(os.sched_getaffinity(0)),
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "filter": pattern, "options": passed}


def file_name(run):
    moment = datetime.datetime.fromisoformat(run["time"]).strftime("%Y%m%dT%H%M%SZ")
    of = run["commit"][:7] if run["commit"] != "unknown" else run.get("tutti", "unknown")
    return f"{moment}-{of}{'-changed' if run['changed'] else ''}"


def write_whole(path, content):
    """Replaces the file in one step."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(unfinished, path)


def make_file(folder, name, content):
    """Writes a file that no other run has, and gives its path: two runs of one second get two."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in itertools.chain([""], (f"-{n}" for n in itertools.count(2))):
        path = folder / f"{name}{suffix}.json"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        write_whole(path, content)
        return path


def matching(executable, pattern):
    """Names of its benches, and what it had to say against the pattern. Throws SystemExit if it cannot be started."""
    done = subprocess.run([executable, f"--benchmark_filter={pattern}", "--benchmark_list_tests"], capture_output=True,
                          text=True)
    if done.returncode != 0 and "Could not compile benchmark re" not in done.stderr:
        raise SystemExit(f"bench: {executable} ended with status {done.returncode}: {done.stderr.strip()}")
    return [line for line in done.stdout.splitlines() if line] if done.returncode == 0 else [], done.stderr.strip()


def measure_limits(executable):
    """FLOP/s of multiply-adds, and bytes/s of copies by the bytes that one reads and writes."""
    done = subprocess.run([executable], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {executable} ended with status {done.returncode}")
    return json.loads(done.stdout)


def show_limits(limits):
    print(f"limits of one core: {limits[FLOPS] * 1e-9:.1f} GFLOP/s in f32 multiply-adds; copies, GB/s read and written: "
          + ", ".join(f"{rate * 1e-9:.1f} ({size_text(int(moved))})" for moved, rate in limits["copies"].items()),
          flush=True)


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def copy_limit(limits, moved):
    """Bytes/s of the copy that moves about as many bytes: caches are faster than memory."""
    nearest = min(limits["copies"], key=lambda size: abs(int(size).bit_length() - int(moved).bit_length()))
    return limits["copies"][nearest]


def limit_rows(benchmarks, limits):
    """A row for each bench that states its operations or bytes."""
    def share(rate, limit):
        return [f"{rate * 1e-9:.2f}", f"{100 * rate / limit:.0f} %"]

    rows = []
    for bench in benchmarks:
        whole = bench.get("run_type") == "iteration" or bench.get("aggregate_name") == "median"
        if not whole or not (FLOPS in bench or BYTES in bench):
            continue
        by_wall = bench["name"].split("/")[-1] in ("real_time", "manual_time")  # else rates are by the processor's time
        seconds = bench["real_time" if by_wall else "cpu_time"] * SECONDS[bench["time_unit"]]
        flops = share(bench[FLOPS], limits[FLOPS]) if FLOPS in bench else ["", ""]
        moved = bench.get(BYTES, 0.0) * seconds
        rows.append([bench["name"], *flops,
                     *(share(bench[BYTES], copy_limit(limits, moved)) if BYTES in bench else ["", ""])])
    return rows


def show_table(rows):
    rows = [["", "GFLOP/s", "of limit", "GB/s", "of limit"], *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:]))]))


class Course:
    """How many benches are done: by the lines that executables print of them."""

    def __init__(self, names):
        self.names, self.done = names, set()
        self.line, self.began = ProgressLine(), time.monotonic()

    def run(self, command):
        """Runs an executable, passes on what it prints, and says meanwhile how far all are; its status."""
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                for text in lines_of(process.stdout, 1.0):
                    if text is None:
                        self.show()
                        continue
                    self.line.clear()
                    self.line.put_off()
                    print(text, flush=True)
                    name = AGGREGATE.sub("", text.split()[0] if text.strip() else "")
                    self.done |= {name} & self.names
            finally:
                self.line.clear()
        return process.returncode

    def show(self):
        elapsed, done, total = time.monotonic() - self.began, len(self.done), len(self.names)
        self.line.show(f"[{done}/{total}] {time_text(elapsed, left_of(done, total, elapsed), done, 'benches')}")


def run_all(executables, pattern, passed, path, content):
    """Runs them, which are names of benches by executable, one after the other, adding to the file; what failed."""
    failed = []
    course = Course({name for names in executables.values() for name in names})
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "output.json"
        for executable in executables:
            print(f"\n== {executable.name}", flush=True)
            output.unlink(missing_ok=True)
            status = course.run([executable, f"--benchmark_filter={pattern}", *passed, f"--benchmark_out={output}",
                                 "--benchmark_out_format=json"])
            if status != 0:
                failed.append(f"{executable.name} ended with status {status}")
                continue
            said = json.loads(output.read_text())
            content["context"] = said["context"] | content["context"]
            content["benchmarks"] += [bench | {"executable": executable.name} for bench in said["benchmarks"]]
            write_whole(path, content)
    return failed


def run_into_file(executables, limits, pattern, output, passed):
    """One run, its file and its tables; the status."""
    context = describe_run(pattern, passed) | {"complete": False}
    path, content = None, {"context": context, "benchmarks": []}
    try:
        context["limits"] = measure_limits(limits)
        context["tutti"] = context["limits"].pop("tutti", "")
        show_limits(context["limits"])
        path = make_file(output, file_name(context), content)
        failed = run_all(executables, pattern, passed, path, content)
        content["context"]["complete"] = not failed
    except KeyboardInterrupt:
        failed = None
    if not content["benchmarks"]:
        if path:
            path.unlink()
    else:
        write_whole(path, content)
        if rows := limit_rows(content["benchmarks"], context["limits"]):
            print()
            show_limits(context["limits"])
            show_table(rows)
        print(f"\nwrote {path}")
    if failed is None:
        print("bench: interrupted: " + ("the file has what had finished" if content["benchmarks"] else "nothing was written"),
              file=sys.stderr)
        return 130
    for line in failed:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if failed else 0


def run(folder, pattern, only_list, output, passed):
    """Runs what matches of a folder's *_bench, with options for Google Benchmark; the status."""
    found, complaints = {}, []
    for executable in sorted(folder.glob("*_bench")):
        names, complaint = matching(executable, pattern)
        complaints.append(complaint)
        if names:
            found[executable] = names
    if not found:
        print(f"bench: no bench matches '{pattern}'; --list has their names", file=sys.stderr)
        print(*dict.fromkeys(filter(None, complaints)), sep="\n", file=sys.stderr)
        return 1
    if only_list:
        print(*(name for names in found.values() for name in names), sep="\n")
        return 0
    return run_into_file(found, folder / LIMITS, pattern, output, passed)
