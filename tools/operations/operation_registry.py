# SPDX-License-Identifier: Apache-2.0
"""What the tree says of its operations: declarations, the tables of tests/references, and their cases."""

import json
import re
import struct

DTYPES = ("f64", "f32", "bf16", "f16", "i64", "i32", "i8", "u8", "bool")
WORD = re.compile(r"(?:operator\W+|[a-z]\w*)$")


def code(path):
    """Without comments."""
    return re.sub(r"//[^\n]*", "", path.read_text())


def literal(text, name):
    """The words of the string constant of that name."""
    found = re.search(rf"\b{name} =\s*((?:\"[^\"]*\"\s*)+);", text)
    if not found:
        raise SystemExit(f"there is no constant {name} of strings")
    return "".join(re.findall(r'"([^"]*)"', found[1])).split()


def declared_functions(root):
    """Free functions of tensors, as tests/references/coverage_test.cpp finds them."""
    names = set()
    for folder in ("autodiff", "nn"):
        for header in (root / folder).rglob("*.h"):
            for found in re.finditer(r"^[A-Za-z][^\n(]*\((?:[^()\n]|\n|\([^()]*\))*\)", code(header), re.M):
                before, _, arguments = found[0].partition("(")
                kind, _, name = re.sub(r"^template <.*?> ", "", before).rpartition(" ")
                name = name.lstrip("&*")
                if "Tensor" in arguments and kind and WORD.match(name) and re.fullmatch(r"[\w:<>, &*]+", kind):
                    names.add(name)
    return names


def listed_elementwise(root):
    """[(struct, named function or "")] of the elementwise operations, in the list's order."""
    text = code(root / "backend" / "elementwise" / "operation_list.h")
    return re.findall(r"^TUTTI_(?:UNARY|BINARY|COMPARISON)(?:_BY_HAND)?\((\w+)(?:, (\w+))?", text, re.M)


def declared_words(root):
    """Whatever a public header declares: functions, members, types."""
    words = {function for _, function in listed_elementwise(root) if function}
    for folder in ("backend", "autodiff", "nn", "exchange", "optim"):
        for header in (root / folder).rglob("*.h"):
            text = code(header)
            words.update(re.findall(r"\b(\w+)\(", text))
            words.update(re.findall(r"\b(?:class|struct|enum class|using)\s+(\w+)", text))
    return words


def elementwise_operations(root):
    """name -> what it is declared as."""
    names = {}
    for header in (root / "backend" / "elementwise").glob("*.h"):
        names.update(re.findall(r'struct (\w+)(?:(?!\nstruct ).)*?\bauto name = "(\w+)"', header.read_text(), re.S))
    operators = re.findall(r'\{"(\w+)", "(operator[^"]*)"\}', (root / "tests/references/tables/elementwise_table.cpp").read_text())
    listed = [names[struct] for struct, _ in listed_elementwise(root)]
    return {name: dict(operators).get(name, name) for name in listed}


def table_operations(root):
    """name in the files -> names in the headers."""
    operations = elementwise_operations(root)
    for table in sorted((root / "tests" / "references").rglob("*_table.cpp")):
        text = code(table)
        for two_names, name, second in re.findall(r"^\s+TUTTI_REFERENCE(_OF)?\((\w+),\s*(\w+)?", text, re.M):
            operations[name] = second if two_names else name
        operations.update(re.findall(r'^\s+\{"(\w+)", "([^"]+)", \[\]', text, re.M))
    return operations


def without_reference(root):
    return literal(code(root / "tests/references/coverage_test.cpp"), "kNoOperations")


def without_second_gradient(root):
    text = (root / "tests/references/jacobians_test.cpp").read_text()
    listed = re.search(r"kNoSecondGradient\{(.*?)\n\};", text, re.S)
    return set(re.findall(r'\{"(\w+)",', listed[1]))


def missing_on(root, kind):
    """The functions that Backend asks for and the backend of that kind of device has not."""
    backend = root / "backend"
    wanted = re.findall(r"^\s*virtual [^;(]*?(\w+)\([^;]*\)\s*(?:const)?\s*= 0;", code(backend / "backend.h"), re.M)
    there = code(backend / kind / f"{kind}_backend.h")
    missing = {name for name in wanted if not re.search(rf"\b{name}\(", there)}
    if "backend/kernel_list.h>" not in there:
        missing.update(re.findall(r"^TUTTI_KERNEL\((\w+)", code(backend / "kernel_list.h"), re.M))
    return sorted(missing)


class Cases:
    """What the files have of one operation."""

    def __init__(self):
        self.dtypes = {"x": set(), "g": set(), "h": set()}
        self.count = 0
        self.versions = {}


def header(path):
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))


def in_order(dtypes):
    return [dtype for dtype in DTYPES if dtype in dtypes]


def data_files(root):
    """(path, whether its cases are of operations of the tables)"""
    text = code(root / "tests" / "references" / "operations.cpp")
    of_tables = re.findall(r'"(\w+)"', re.search(r"reference_files\(\) \{(.*?)\n\}", text, re.S)[1])
    paths = sorted((root / "tests" / "references" / "data").glob("*.safetensors"))
    return [(path, path.stem in of_tables) for path in paths]


def all_cases(root):
    """operation -> Cases"""
    cases = {}
    for path in (path for path, of_tables in data_files(root) if of_tables):
        entries = header(path)
        metadata = entries.pop("__metadata__", {})
        operation_of = {name: text.split()[0] for name, text in metadata.items() if "." in name}
        versions = {package: metadata[package] for package in metadata if "." not in package}
        for operation in operation_of.values():
            found = cases.setdefault(operation, Cases())
            found.count += 1
            found.versions.update(versions)
        for name, tensor in entries.items():
            case, _, kind = name.rpartition(".")
            operation = operation_of.get(case)
            if operation and kind[0] in cases[operation].dtypes and kind.rstrip("0123456789") in ("x", "g", "h"):
                cases[operation].dtypes[kind[0]].add(tensor["dtype"].lower())
    return cases


def other_files(root):
    """Files whose cases are of no operation of the tables: (file, names, dtypes, versions)."""
    rows = []
    for path in (path for path, of_tables in data_files(root) if not of_tables):
        metadata = header(path).get("__metadata__", {})
        texts = [text for name, text in metadata.items() if "." in name]
        names = sorted({text.split()[0] for text in texts})
        if not names:
            continue
        dtypes = {word[6:] for text in texts for word in text.split() if word.startswith("dtype=")}
        rows.append((path.stem, names, in_order(dtypes), {k: v for k, v in metadata.items() if "." not in k}))
    return rows
