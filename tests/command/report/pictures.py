#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the documents' pictures of the pages of `tutti report`: curves and timeline of a run in light and dark, and two runs.

usage: pictures.py FOLDER --run RUN [--other RUN]
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import webdriver

PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "command/report/tutti_report.py"
DRAWN = "Number(document.documentElement.dataset.drawn) > 0 && [...page.charts.values()].every((entry) => !entry.chart || entry.chart.graph)"


def make_pictures(folder, run, other=None):
    """Of the run, and of both where there is another; both are in one folder, from which the pages name them."""
    with tempfile.TemporaryDirectory() as kept:
        pages = {"report": [run], "compare": [run, other]} if other else {"report": [run]}
        for name, runs in pages.items():
            subprocess.run([sys.executable, PROGRAM, "--output", f"{kept}/{name}.html", *(each.relative_to(run.parents[1]) for each in runs)], check=True,
                           cwd=run.parents[1], stdout=subprocess.DEVNULL)
        for suffix in ("", "-dark"):
            with webdriver.Browser(1280, 1010, dark=bool(suffix)) as browser:
                for name in pages if not suffix else ["report"]:
                    browser.open(pathlib.Path(kept) / f"{name}.html")
                    browser.wait(DRAWN, seconds=60)
                    time.sleep(1)
                    browser.shoot(folder / f"{name}{suffix}.png")
                    if name == "report":
                        browser.run("document.querySelector('#controls').style.position = 'static';")
                        browser.shoot(folder / f"timeline{suffix}.png", "#timeline")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures are written")
    parser.add_argument("--run", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--other", type=lambda text: pathlib.Path(text).resolve(), help="a run in the same folder, for the picture of two")
    arguments = parser.parse_args()
    if absent := webdriver.missing():
        sys.exit(f"pictures: there is no {' and no '.join(absent)} (Debian: chromium, chromium-driver)")
    make_pictures(arguments.folder, arguments.run, arguments.other)


if __name__ == "__main__":
    main()
