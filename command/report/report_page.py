# SPDX-License-Identifier: Apache-2.0
"""Makes one HTML file of runs, with all that it needs in it: data, style, programs, the plotting library and its licence.

Scripts are allowed by their hashes alone, and nothing is fetched, so that no text of a run can become a program.
"""

import base64
import datetime
import hashlib
import html
import json
import os
import pathlib
import tempfile

import chart_groups
import series_data

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "page"
SCRIPTS = ("format.js", "series.js", "chart.js", "timeline.js", "tables.js", "report.js")
MARK = '<meta name="generator" content="tutti report">'  # by which a report is known among other files
LIBRARY_FOLDERS = (HERE, pathlib.Path("/usr/share/javascript/dygraphs"))
LIBRARY_LICENCES = (HERE / "dygraphs.licence.txt", pathlib.Path("/usr/share/doc/libjs-dygraphs/copyright"))


class PageError(Exception):
    pass


class Library:
    """The plotting library's program, style and licence, where they are installed."""

    def __init__(self, folders=LIBRARY_FOLDERS, licences=LIBRARY_LICENCES):
        self.script = self.first([folder / "dygraph.min.js" for folder in folders])
        self.style = self.first([folder / "dygraph.min.css" for folder in folders])
        self.licence = self.first(licences)

    @staticmethod
    def first(paths):
        for path in paths:
            try:
                return path.read_text(encoding="utf-8")
            except OSError:
                continue
        raise PageError(f"the plotting library dygraphs is missing (Debian: libjs-dygraphs): there is no "
                        f"{' nor '.join(str(path) for path in paths)}; install it, and, for an installed tutti, configure and install that again")


def collect(runs, live=None):
    """All data of a page."""
    arrays = series_data.Arrays()
    all_values = sum(run.value_count() for run in runs)
    described = [run.describe(arrays, all_values) for run in runs]
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"made": now, "live": live, "values": all_values, "most_values": series_data.MOST_VALUES, "runs": described,
            "charts": chart_groups.group(described), "arrays": arrays.packed}


def data_text(data):
    """JSON that can stand in a page: nothing in it ends a script or begins a comment."""
    text = json.dumps(finite(data), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def finite(value):
    """The same without NaN and infinities, which are no JSON: None."""
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value


def script(text):
    """A script's element, and its hash."""
    text = text.replace("</script", "<\\/script")
    return f"<script>{text}</script>", "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def make_page(data, library):
    own = "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    scripts, hashes = zip(script(library.script), script('"use strict";\n' + own))
    policy = (f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; img-src data:; "
              f"connect-src {chr(39) + 'self' + chr(39) if data['live'] else chr(39) + 'none' + chr(39)}; base-uri 'none'; form-action 'none'")
    parts = {"mark": MARK, "policy": policy, "title": html.escape("report: " + ", ".join(run["name"] for run in data["runs"])),
             "style": (library.style + (PAGE / "report.css").read_text(encoding="utf-8")).replace("</style", "<\\/style"),
             "data": data_text(data), "licence": html.escape(library.licence), "scripts": "\n".join(scripts)}
    pieces = (PAGE / "report.html").read_text(encoding="utf-8").split("@@")
    page = "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))
    return page.encode(errors="replace").decode()  # paths may be no text


def is_report(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return MARK in file.read(1000)
    except OSError:
        return False


def write_page(path, text, force):
    """Writes it in one step. Throws PageError where it cannot, or another file would be lost."""
    unfinished = None
    try:
        if path.is_dir():
            raise PageError(f"{path} is a folder")
        if path.exists() and not path.is_file():
            raise PageError(f"{path} is no file that can be replaced")
        if path.exists() and not force and not is_report(path):
            raise PageError(f"{path} is there and is no report: --force replaces it, --output names another file")
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(unfinished, 0o666 & ~umask)
        os.replace(unfinished, path)
        unfinished = None
    except OSError as error:
        raise PageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if unfinished:
            os.unlink(unfinished)
