# SPDX-License-Identifier: Apache-2.0
"""The rules that check_layers.py enforces, all by folder: who may include whom, and what may lie where."""

import fnmatch

MAX_LINES = 400
MAX_FILES = 30
CODE_SUFFIXES = {".h", ".cpp", ".cu"}
SIZED_SUFFIXES = CODE_SUFFIXES | {".py", ".sh"}
EMPTY_NAMES = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}
# Folders with a file for each operation, of any number.
OPERATION_FOLDERS = {"operations", "kernels"}
# Where an operation's name is listed, once for all folders that have a source of that name: by Meson's words for them.
OPERATION_LIST = "backend/operations/meson.build"
OPERATION_SOURCES = {
    "arrays": "backend/operations/{}.cpp",
    "cpu": "backend/cpu/operations/{}.cpp",
    "cuda": "backend/cuda/operations/{}.cpp",
    "kernels": "backend/cuda/kernels/{}.cu",
    "element_kernels": "backend/cuda/kernels/{}.cu",
    "tensors": "autodiff/operations/{}.cpp",
}

# What each top folder may include; itself is always allowed.
LAYERS = {
    "backend": set(),
    "autodiff": {"backend"},
    "nn": {"backend", "autodiff"},
    "exchange": {"backend", "autodiff", "nn"},
    "onnx": {"backend", "autodiff", "nn", "exchange"},
    "bench": {"backend", "exchange", "bench.h"},
    "optim": {"backend", "autodiff"},
    "distributed": {"backend", "autodiff", "nn", "optim"},
    "testing": {"backend", "autodiff", "nn", "optim", "distributed"},
    "train": {"backend", "autodiff", "nn", "exchange", "optim", "distributed"},
    "c_api": {"backend", "autodiff", "nn", "exchange", "onnx", "optim", "distributed", "train", "c_api.h"},
    "command": set(),
}
# Programs of subcommands that are linked with the library; the command itself is not.
LINKED_PROGRAMS = {"command/convert": {"backend", "exchange"}, "command/info": {"backend", "distributed", "exchange"}}
# Macros and a function, which any folder may include; it includes nothing of the library.
VERSION = "version.h"
# Includes what programs use, and is included by no source of the library.
UMBRELLA = "tutti.h"
# The header in C, which includes nothing of ours: it lies beside the umbrella, and its sources in the layer of its name.
C_HEADER = "c_api.h"
# Of programs that measure their own code; its sources lie in the layer of its name.
BENCH_HEADER = "bench.h"
TOP_HEADERS = (UMBRELLA, C_HEADER, VERSION, BENCH_HEADER)
OUTER_FOLDERS = ("examples", "tests", "benches", "tools")
# Programs of somebody else, compiled against what is installed.
OTHERS_SOURCES = ("tests/consumers",)

# Layers within a layer: what each of its folders may include beside backend/, itself and what lies in it. A header at the
# top of the layer counts as what it includes. The core of distributed/ is autodiff's observer and knows nothing else of it.
OBSERVER = "autodiff/observer"
MODELS = {"autodiff", "nn", "optim"}
CORE = {"distributed/threads", "distributed/layout", "distributed/ledger", "distributed/collectives", OBSERVER}
WITHIN = {
    "autodiff/observer": set(),
    "autodiff/tensor": {OBSERVER},
    "autodiff/operations": {"autodiff/tensor", OBSERVER},
    "autodiff/tables": {"autodiff/tensor", OBSERVER},
    "autodiff/engine": {"autodiff/operations", "autodiff/tensor", OBSERVER},
    "exchange/arrays": {"autodiff", "nn"},
    "exchange/memory": {"autodiff", "nn"},
    "exchange/files": {"exchange/arrays", "exchange/memory", "autodiff", "nn"},
    "exchange/printing": {"exchange/arrays", "exchange/files", "autodiff", "nn"},
    "optim/steps": {"autodiff"},
    "optim/optimizers": {"optim/steps", "autodiff"},
    "optim/schedules": {"optim/steps", "autodiff"},
    "distributed/threads": set(),
    "distributed/layout": {OBSERVER},
    "distributed/ledger": {"distributed/layout", OBSERVER},
    "distributed/collectives": {"distributed/layout", OBSERVER},
    "distributed/compression": {"distributed/collectives", "distributed/layout", OBSERVER},
    "distributed/engines": {"distributed/threads", "distributed/collectives", "distributed/layout", OBSERVER},
    "distributed/messages": {"distributed/processes"} | CORE,
    "distributed/report": {"distributed/messages"} | CORE,
    "distributed/server": {"distributed/processes", "distributed/report", "distributed/messages"} | CORE,
    "distributed/replica": {"distributed/messages"} | CORE | MODELS,
    "distributed/process_group": {"distributed/processes", "distributed/engines", "distributed/member",
                                  "distributed/messages"} | CORE | MODELS,
    "distributed/member": {"distributed/processes", "distributed/replica", "distributed/server", "distributed/report", "distributed/messages",
                           "distributed/engines"} | CORE | MODELS,
    "distributed/processes": {"distributed/ledger", "distributed/collectives", "distributed/layout", OBSERVER},
    "command/bench": set(),
    "command/convert": LINKED_PROGRAMS["command/convert"],
    "command/dispatch": set(),
    "command/launch": set(),
    "command/info": LINKED_PROGRAMS["command/info"],
    "command/report": set(),
    "distributed/sharded": {"distributed/member", "distributed/messages"} | CORE | MODELS,
}

# Seen by what lies within, by tests, by the code that measures it, and by these: what switches it or its linear algebra on.
PRIVATE_FOLDERS = {
    "backend/build_facts": ("library", "train/reporting"),
    "backend/cpu": ("backend/devices", "backend/linear_algebra"),
    "backend/cuda": ("backend/devices", "distributed/engines"),
    "backend/processor": ("backend/build_facts", "backend/cpu", "command/info", "distributed/processes", "library"),
    "bench/suite": ("bench",),
    "c_api/calls": ("c_api",),
    "c_api/models": ("c_api",),
    "command": (),
    "onnx/export": ("onnx",),
    "onnx/format": ("onnx",),
    "onnx/operators": ("onnx",),
    "testing/devices": (),
    "testing/engines": (),
    "distributed/engines/nccl": ("distributed/engines",),
    "distributed/engines/peer": ("distributed/engines",),
    "distributed/processes/control": ("distributed/processes",),
}

# Public headers that need those of fmt: for sources of the library and of its extensions. No other public header does.
FORMATTING_HEADERS = ("backend/raise.h", "backend/numbers/checked_size.h")
PRECOMPILED_HEADERS = ("backend/pch", "autodiff/pch")

# Where third-party headers may stand, first match decides. Tests and benches may use all as references and peers.
THIRD_PARTY = (
    (("Eigen/*", "unsupported/Eigen/*"), ("backend/cpu/*",)),
    (("cuda*", "cublas*", "cudnn*", "cusolver*", "curand*", "cub/*"), ("backend/cuda/*", "distributed/engines/nccl/*")),
    (("nccl*",), ("distributed/engines/nccl/*",)),
    (("nlohmann/*",), ("bench/*", "exchange/*", "train/*", "examples/*", "command/info/*")),
    (("zmq.h",), ("distributed/processes/*",)),
    (("mpi.h",), ("distributed/engines/network/mpi/*",)),
    (("sodium.h",), ("distributed/processes/*", "distributed/engines/network/*")),
    (("zlib.h",), ("exchange/*", "train/*", "examples/*")),
    (("CLI/*",), ("command/*", "examples/*")),
    (("doctest/*",), ()),
    (("benchmark/*",), ()),
    (("fmt/*",), ("*",)),
    (("sys/*", "netinet/*", "arpa/*", "linux/*", "gnu/*"), ("*",)),
)


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(str(path), pattern) for pattern in patterns)


def lies_in(path, folders):
    return any(str(path).startswith(folder + "/") for folder in folders)


def is_top_header(path):
    """Of a layer, for programs and the rest of the library."""
    return len(path.parts) == 2 and shows_headers(path.parts[0]) and path.suffix == ".h"


def shows_headers(layer):
    """Whether others than its tests include it: the command is a program."""
    return layer in LAYERS and layer not in PRIVATE_FOLDERS


def within_fault(path, header, includes_of, reached):
    """What is wrong with the header for the part of a layer that `path` lies in, or None."""
    part = "/".join(path.parts[:2])
    if part not in WITHIN:
        return None
    if is_top_header(header) and header.parts[0] == path.parts[0]:
        for further in includes_of(header):
            if further not in reached:
                fault = within_fault(path, further, includes_of, reached | {further})
                if fault:
                    return fault if " through " in fault else f"{fault} through <tutti/{header}>"
        return None
    if lies_in(header, {part, "backend"} | WITHIN[part]):
        return None
    return f"{part}/ may not include <tutti/{header}>"


def project_include_fault(path, header, includes_of):
    """What is wrong with `path` including `<tutti/header>`, or None. `includes_of` says what a header of ours includes."""
    for folder, readers in PRIVATE_FOLDERS.items():
        if lies_in(header, [folder]) and not lies_in(path, [folder, "tests", "benches", *readers]):
            return f"<tutti/{header}> is private to {folder}/"
    if str(header) in FORMATTING_HEADERS and is_fmt_free(path):
        return f"<tutti/{header}> would ask every program for the headers of fmt"
    layer = path.parts[0]
    if str(path) == C_HEADER:
        return f"<tutti/{header}> is C++, which programs in C cannot include"
    if str(path) == BENCH_HEADER and header.parts[0] != "backend":
        return f"{BENCH_HEADER} may not include <tutti/{header}>"
    if str(path) == VERSION:
        return f"{VERSION} is for all, and may not include <tutti/{header}>"
    if layer not in LAYERS or str(header) == VERSION:
        return None
    program = LINKED_PROGRAMS.get("/".join(path.parts[:2]), set())
    if header.parts[0] not in LAYERS[layer] | program | {layer}:
        return f"{path.parent}/ may not include <tutti/{header}>"
    return within_fault(path, header, includes_of, frozenset())


def third_party_fault(path, header):
    """What is wrong with `path` including the foreign `<header>`, or None."""
    if path.parts[0] in ("tests", "benches"):
        return None
    # exchange/eigen.h is for programs that use Eigen themselves, and so on.
    if str(path) == f"exchange/{header.partition('/')[0].lower()}.h":
        return None
    if header.startswith("fmt/") and is_fmt_free(path):
        return f"<{header}> would ask every program for the headers of fmt"
    for headers, places in THIRD_PARTY:
        if matches(header, headers):
            return None if matches(path, places) else f"<{header}> belongs in {' '.join(places) or 'tests and benches'}"
    return f"<{header}> is of an unknown library; name its place in tools/layer_rules.py" if "/" in header else None


def is_fmt_free(path):
    """Whether programs, which need not have fmt, include it."""
    if path.suffix != ".h" or str(path) in FORMATTING_HEADERS or lies_in(path, [*PRIVATE_FOLDERS, *PRECOMPILED_HEADERS]):
        return False
    return str(path) in TOP_HEADERS or path.parts[0] in LAYERS


def asks_for_a_library(header):
    """Whether who includes this needs more than the library and the system."""
    return "/" in header and not matches(header, ("tutti/*", "sys/*"))


def place_fault(path):
    """What is wrong with where a file lies, or None."""
    if len(path.parts) == 2 and shows_headers(path.parts[0]) and path.suffix in CODE_SUFFIXES - {".h"}:
        return f"the top of {path.parts[0]}/ shows headers alone; a source lies in the folder of its subject"
    return None


def may_hold(folder, count):
    return count <= MAX_FILES or folder.name in OPERATION_FOLDERS


def must_be_listed(path):
    """Sources everywhere; headers where they are installed."""
    if str(path) in TOP_HEADERS:
        return True
    if path.parts[0] in LAYERS:
        is_private = lies_in(path, PRIVATE_FOLDERS)
        return path.suffix in (".cpp", ".cu") or (path.suffix == ".h" and not is_private)
    return path.parts[0] in OUTER_FOLDERS and path.suffix == ".cpp" and not lies_in(path, OTHERS_SOURCES)
