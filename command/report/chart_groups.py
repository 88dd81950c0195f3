# SPDX-License-Identifier: Apache-2.0
"""Which series share a chart: training and validation of one thing, memory of all devices, the same names of all runs."""

import re

SECTIONS = ("Loss and metrics", "Learning rate", "Throughput", "Memory", "Synchronisation")
KINDS = (("validation", re.compile(r"^(validation|valid|val|evaluation|eval)[_/]")), ("test", re.compile(r"^test[_/]")),
         ("training", re.compile(r"^(training|train)[_/]|^total_(?=loss)")))
BY_SECTION = (("Learning rate", re.compile(r"^(lr|learning_rate)($|[/_])")),
              ("Memory", re.compile(r"(^|[_/])memory|_bytes$")),
              ("Synchronisation", re.compile(r"^sync/|^reduction_|skew|lateness|exposed")),
              ("Throughput", re.compile(r"throughput|_per_second$|(^|[_/])time$|seconds$|_ms$")))
SHARED = (re.compile(r"^memory(?=$|/)"), re.compile(r"^sync/lateness(?=/)"), re.compile(r"^lr(?=$|/)"))
FIRST = ("loss", "accuracy", "error", "perplexity")


def place_of(name):
    """(section, title, kind) of a series by its name."""
    section = next((section for section, pattern in BY_SECTION if pattern.search(name)), SECTIONS[0])
    if section == SECTIONS[0]:
        for kind, pattern in KINDS:
            base = pattern.sub("", name)
            if base != name and base:
                return section, base, kind
    shared = next((found[0] for pattern in SHARED if (found := pattern.match(name))), None)
    return section, shared or name, ""


def order_of(chart):
    title = chart["title"].lower()
    found = next((place for place, word in enumerate(FIRST) if word in title), len(FIRST))
    return SECTIONS.index(chart["section"]), found, chart["axis"] != "iteration", title, chart["axis"]


def group(runs):
    """Charts of described runs: section, title, axis, and for each series its run, place there and kind."""
    charts = {}
    for run, described in enumerate(runs):
        for place, series in enumerate(described["series"]):
            section, title, kind = place_of(series["name"])
            chart = charts.setdefault((section, title, series["axis"]),
                                      {"section": section, "title": title, "axis": series["axis"], "members": []})
            chart["members"].append({"run": run, "series": place, "kind": kind})
    return sorted(charts.values(), key=order_of)
