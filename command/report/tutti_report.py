#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program behind `tutti report`, and what `./dev report` runs.

usage: tutti report [--output FILE] [--force] [--open] RUN...
       tutti report --live [--port N] [--open] RUN...

  RUN            a folder of a run, with its *.jsonl, trace.json and run.json as far as it has them, or a file of metrics;
                 several are compared on one page
  --output FILE  where the page goes (report.html in the run's folder; for several runs, where one stands)
  --force        replace a file that is there and is no report
  --open         open it in the browser
  --live         serve the page on loopback, up to date while training goes on; Ctrl-C ends it
  --port N       of --live (by default one that is free)

The page is one file that needs no network: curves, the timeline of recorded steps, parameters, and how the run was started
and ended. It is written in one step.
"""

import gc
import os
import pathlib
import sys
import time
import webbrowser

HERE = pathlib.Path(__file__).resolve().parent
# Where they lie in the sources, and where they are installed.
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools"), str(HERE / "report")]
sys.dont_write_bytecode = True

import live_server  # noqa: E402
import report_page  # noqa: E402
import run_files  # noqa: E402
from progress_line import ProgressLine, left_of, time_text  # noqa: E402


PAGE_SHARE = 1.0  # what making a page of a million rows takes, of what reading them does


class BadWords(Exception):
    pass


def from_caller(path):
    """As ./dev was given it, which changes the folder."""
    return pathlib.Path(os.environ.get("TUTTI_CALLED_FROM", "."), path) if path else None


def parse(words):
    options = {"runs": [], "output": None, "port": None, "force": False, "open": False, "live": False, "check": False}
    rest = iter(words)
    only_runs = False
    for word in rest:
        name, equals, value = word.partition("=")
        if only_runs or not word.startswith("-"):
            if not word:
                raise BadWords("a RUN is empty")
            options["runs"].append(word)
        elif word == "--":
            only_runs = True
        elif name in ("--output", "--port"):
            options[name[2:]] = value if equals else next(rest, "")
            if not options[name[2:]] or not equals and options[name[2:]].startswith("-"):
                raise BadWords(f"{name} needs a {'file' if name == '--output' else 'number'}")
        elif word in ("--force", "--open", "--live", "--check"):  # --check, of ./dev: nothing but these words is looked at
            options[word[2:]] = True
        else:
            raise BadWords(f"unknown option '{word}'")
    if not options["runs"]:
        raise BadWords("a RUN is missing: a folder with metrics, as runs/digits")
    if options["live"] and (options["output"] or options["force"]):
        raise BadWords("--live writes no file: without --output and --force")
    if options["port"] is not None:
        if not options["live"]:
            raise BadWords("--port is of --live")
        if not options["port"].isascii() or not options["port"].isdigit() or len(options["port"]) > 5 or int(options["port"]) > 65535:
            raise BadWords(f"--port '{options['port']}' is no number from 0 to 65535")
    return options


def output_of(options, runs):
    if options["output"]:
        return from_caller(options["output"])
    if len(runs) > 1:
        return from_caller("report.html")
    return (runs[0].folder or runs[0].path.parent) / "report.html"


def size_text(size):
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"


class Course:
    """How far large runs are read, and their page is made."""

    def __init__(self, runs):
        self.all, self.done = sum(run.metrics_bytes() for run in runs), 0
        self.line, self.began = ProgressLine(quiet=1.0), time.monotonic()

    def read(self, count):
        elapsed, read, whole = time.monotonic() - self.began, self.done / 1e6, self.all / 1e6
        left = left_of(self.done, self.all * (1 + PAGE_SHARE), elapsed)
        self.line.show(f"read {read:.0f} of {whole:.0f} MB, {time_text(elapsed, left, read, 'MB')}")
        self.done += count

    def make(self):
        elapsed = time.monotonic() - self.began
        self.line.show(f"making the page, {time_text(elapsed, elapsed * PAGE_SHARE)}")


def write(options, runs, library):
    gc.disable()  # a page is made once: looking for garbage among a million rows takes a tenth of the time
    course = Course(runs)
    try:
        for run in runs:
            run.read(course.read)
            run.require_content()
        path = output_of(options, runs)
        if any(run.reads(path) for run in runs):
            raise report_page.PageError(f"{path} is what the report is made of: --output names another file")
        course.make()
        report_page.write_page(path, report_page.make_page(report_page.collect(runs), library), options["force"])
    finally:
        course.line.clear()
    print(f"wrote {path} ({size_text(path.stat().st_size)})")
    if options["open"]:
        webbrowser.open(path.resolve().as_uri())
    return 0


def serve(options, runs, library):
    course = Course(runs)
    try:
        for run in runs:
            run.read(course.read)
        course.make()
        source = live_server.Source(runs, library)
        source.refresh()
    finally:
        course.line.clear()
    port = int(options["port"] or 0)
    try:
        server = live_server.Server(port, source)
    except OSError as error:
        print(f"report: cannot serve on port {port}: {error.strerror}", file=sys.stderr)
        return 1
    with server:
        try:
            print(f"{server.address()} until Ctrl-C", flush=True)
            if options["open"]:
                webbrowser.open(server.address())
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def main(words):
    sys.stdout.reconfigure(errors="backslashreplace")  # paths may be no text
    if "-h" in words or "--help" in words:
        print(__doc__.partition("\n\n")[2].strip())
        return 0
    try:
        options = parse(words)
    except BadWords as bad:
        print(f"report: {bad}; --help lists the options", file=sys.stderr)
        return 2
    if options["check"]:
        return 0
    try:
        library = report_page.Library()
        runs = run_files.open_runs([from_caller(path) for path in options["runs"]])
        return serve(options, runs, library) if options["live"] else write(options, runs, library)
    except (report_page.PageError, run_files.RunError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
