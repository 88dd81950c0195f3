# SPDX-License-Identifier: Apache-2.0
"""Gives declarations of a public header the comments that readers see above them, for Doxygen, which gives a comment to the
first declaration behind it alone.

A function without a comment of its own has that of the function directly above it, without an empty line between; a member only
of one of its own name. What has none then has the title of its part of the header (`// --- title`), if that says something: at least six words. The functions
of the list of operations stand in place of its #include, whose macros Doxygen cannot expand.
"""

import re

LIST = "backend/elementwise/operation_list.h"
LISTED_IN = "autodiff/operations/elementwise_operations.h"

INCLUDED_LIST = re.compile(rf"^#include <tutti/{LIST}>$", re.MULTILINE)
QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'")
SCOPE = re.compile(r"(?:template <.*> ?)?(?:(?:class|struct|union|enum|namespace|concept)\b|extern \"\")")
NO_MEMBER = re.compile(r"(?:template <.*> ?)?(?:class|struct|union|enum|concept|using|typedef|friend|static_assert|extern template)\b")
# What is defaulted or deleted, destroys, copies or moves: the comment above it is not its.
SPEAKS_FOR_ITSELF = re.compile(r".*= (?:default|delete);|.*~|.*\b(\w+)\((?:const )?\1 ?&&?\w*\)")
MACRO = re.compile(r"TUTTI_\w+\(")
OPERATOR = re.compile(r"\boperator\s*(?:\(\)|[^\s\w(]+|[\w ]+)\s*\(")
NAME = re.compile(r"(\w+)\s*\(")
TITLE_WORDS = 6
LISTED = re.compile(r"TUTTI_(UNARY|BINARY)\(\w+, (\w+)(.*)\)")
PARAMETER = re.compile(r"\((\w+), ([^)]*)\)")


def bare(line):
    """A line of code without comments and quoted text."""
    return QUOTED.sub('""', line).partition("//")[0].rstrip()


def statement_end(lines, at):
    """Behind the last line of the declaration that begins there; of a class, behind the line that opens it."""
    depth, text = 0, ""
    for number in range(at, len(lines)):
        code = bare(lines[number])
        depth += sum(code.count(each) for each in "({[") - sum(code.count(each) for each in ")}]")
        text = f"{text} {code.strip()}".strip()
        if SCOPE.match(text) and code.endswith("{") or depth <= 0 and code.endswith((";", "}")) or MACRO.match(text) and depth == 0:
            return number + 1
    return len(lines)


def function_name(code):
    """The name of the function that is declared, on one line; empty for what is no function."""
    if operator := OPERATOR.search(code):
        return operator[0]
    while code != (shorter := re.sub(r"<[^<>]*>", "", code)):
        code = shorter
    name = NAME.search(code)
    is_other = not name or "=" in code[:name.start()] or MACRO.match(code) or name[1] in ("alignas", "decltype", "requires")
    return "" if is_other else name[1]


def titled(lines, at):
    """(behind it, text) of the title that begins there."""
    end = next((i for i in range(at + 1, len(lines)) if not re.match(r"\s*//(?!/)", lines[i]) or "// ---" in lines[i]), len(lines))
    words = " ".join(line.strip().removeprefix("//").strip() for line in lines[at:end]).removeprefix("---").strip()
    return end, words[:1].upper() + words[1:] if len(words.split()) >= TITLE_WORDS else ""


def completed(text):
    """The header's text with these comments."""
    lines, made, at = text.split("\n"), [], 0
    titles, above, of, comment = {}, [], "", []  # by indentation; comment and name of the function above; comment of what comes next
    while at < len(lines):
        line, code = lines[at], lines[at].strip()
        indent = len(line) - len(line.lstrip())
        if code:
            titles = {} if code == "}  // namespace tutti" else {key: title for key, title in titles.items() if key <= indent}
        if code.startswith("// ---"):
            end, titles[indent] = titled(lines, at)
            above = []
        elif code.startswith("///") and not code.startswith("///<"):
            end = next(i for i in range(at, len(lines)) if not lines[i].strip().startswith("///"))
            comment = lines[at:end]
        elif code.startswith("#"):
            end = next((i + 1 for i in range(at, len(lines)) if not lines[i].endswith("\\")), len(lines))
            above = comment = []
        elif not code or code.startswith(("//", "}", "public:", "protected:", "private:")):
            end, above, comment = at + 1, [], []
        else:
            end = statement_end(lines, at)
            declared = " ".join(bare(each).strip() for each in lines[at:end])
            behind = re.search(r"[;}]\s*//", lines[end - 1]) or end < len(lines) and lines[end].strip().startswith("///<")
            name = "" if NO_MEMBER.match(declared) else function_name(declared)
            if comment or behind:
                above, of = comment if name else [], name
            elif not SPEAKS_FOR_ITSELF.match(declared):
                above = above if name and (name == of or indent == 0) else []
                title = titles.get(indent) if not NO_MEMBER.match(declared) else ""
                made += above or ([f"{' ' * indent}/// {title}"] if title else [])
            comment = []
        made += lines[at:end]
        at = end
    return "\n".join(made)


def listed_functions(operations):
    """The functions on tensors that the list of operations makes, with its comments and titles."""
    made = []
    for line in operations.split("\n"):
        if found := LISTED.fullmatch(line):
            name = found[2]
            made.append(f"Tensor {name}(const Tensor& x{''.join(f', double {each} = {value}' for each, value in PARAMETER.findall(found[3]))});")
            if found[1] == "BINARY":
                made[-1:] = [f"{head}Tensor {name}({lhs} a, {rhs} b);" for head, lhs, rhs in (
                    ("", "const Tensor&", "const Tensor&"), ("template <Literal T> ", "const Tensor&", "T"), ("template <Literal T> ", "T", "const Tensor&"))]
            made.append("")
        elif line.startswith("//"):
            made.append(line)
    return "\n".join(made)


def with_comments(root, header):
    """The text of a header, below the project's root, as Doxygen reads it."""
    text = (root / header).read_text()
    if header == LISTED_IN:
        text = INCLUDED_LIST.sub(lambda _: listed_functions((root / LIST).read_text()), text)
    # A comment that begins with > is no quotation.
    return completed(text).replace("///< >", r"///< \>")
