#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how comments in the library's headers begin: with what the thing is or does.

A comment that opens with a preposition, a conjunction or a relative pronoun ("of the last step", "what it has seen")
cannot be read alone. Prints `file:line: the comment's beginning` for each of them.
"""

import pathlib
import re
import sys

import layer_rules

OPENINGS = set("""
about above after against along also although among and as at because before behind below beneath beside besides between
beyond but by during except for from if in inside into like likewise of off on once or outside over per since so than then
though through to under unless unlike until what when whenever where which while who whose with within without
""".split())
# Formulas whose first letter is a name.
FORMULAS = ("to = kept ? from factor : 0.",)

WHOLE_LINE = re.compile(r"^\s*//[/!]?<?\s?(.*)$")
TRAILING = re.compile(r"^\s*[^\s/].*?\s//(?:/<)?\s+(\S.*)$")


def comments(text):
    """(line number, text) of each comment; lines that follow each other are one."""
    found, begun = [], False
    for number, line in enumerate(text.splitlines(), 1):
        whole = WHOLE_LINE.match(line)
        trailing = None if whole else TRAILING.match(line)
        if whole and begun:
            found[-1] = (found[-1][0], f"{found[-1][1]} {whole[1]}")
        elif whole or trailing:
            found.append((number, (whole or trailing)[1]))
        begun = bool(whole)
    return found


def faults(text):
    """(line number, text) of each comment that opens with such a word."""
    unread = [each for each in comments(text) if "NOLINT" not in each[1] and not each[1].strip().startswith(FORMULAS)]
    first_words = [(re.match(r"[A-Za-z']+", comment.strip()), number, comment) for number, comment in unread]
    return [(number, comment) for word, number, comment in first_words if word and word[0].lower() in OPENINGS]


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    count = 0
    headers = [header for layer in layer_rules.LAYERS for header in (root / layer).rglob("*.h")]
    for path in sorted([*headers, root / layer_rules.C_HEADER, root / layer_rules.BENCH_HEADER]):
        for number, comment in faults(path.read_text()):
            print(f"{path.relative_to(root)}:{number}: {comment[:80]}")
            count += 1
    print(f"comments: {count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
