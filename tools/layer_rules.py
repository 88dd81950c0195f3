# SPDX-License-Identifier: Apache-2.0
"""The rules that check_layers.py enforces: the table of section 1 of the design."""

import fnmatch

MAX_LINES = 400
CODE_SUFFIXES = {".h", ".cpp", ".cu"}
SIZED_SUFFIXES = CODE_SUFFIXES | {".py", ".sh"}
EMPTY_NAMES = {"util", "utils", "common", "helper", "helpers", "manager", "misc"}

# What each folder may include; itself is always allowed.
LAYERS = {
    "backend": set(),
    "autodiff": {"backend"},
    "nn": {"backend", "autodiff"},
    "exchange": {"backend", "autodiff", "nn"},
    "optim": {"backend", "autodiff"},
    "distributed": {"backend"},
    "train": {"backend", "autodiff", "nn", "exchange", "optim", "distributed"},
}
# Includes what programs use, and is included by no source of the library.
UMBRELLA = "tutti.h"
OUTER_FOLDERS = ("examples", "tests", "benches", "tools")

# The core of distributed/ is autodiff's observer and knows nothing else of it; these parts of the folder sit on top.
OBSERVER = ("autodiff/gradient_observer.h", "autodiff/parameter_id.h", "autodiff/sparse_gradient.h")
DISTRIBUTED_UPPER = {
    "distributed/batch_norm_sync*": {"autodiff", "nn", "optim"},
    "distributed/collectives*": {"autodiff"},
    "distributed/sharded/*": {"autodiff", "nn", "optim"},
    "distributed/gradient_sync*": {"autodiff", "nn", "optim"},
    "distributed/step.*": {"autodiff"},
    "distributed/member/*": {"autodiff", "nn", "optim"},
}

# Private to a backend: seen by itself, by what switches it or its linear algebra on, and by the code that measures it.
PRIVATE_FOLDERS = ("backend/cpu/", "backend/cuda/", "backend/processor/", "distributed/nccl/", "distributed/peer/")
PRIVATE_READERS = ("backend/registry.cpp", "backend/linear_algebra.cpp", "distributed/nccl/*", "distributed/peer/*",
                   "distributed/make_communicator.cpp", "tests/*", "benches/*")

# Where third-party headers may stand, first match decides. Tests and benches may use all as references and peers.
THIRD_PARTY = (
    # exchange/eigen.h is for programs that use Eigen themselves; no source of the library includes it.
    (("Eigen/*", "unsupported/Eigen/*"), ("backend/cpu/*", "exchange/eigen.h")),
    (("dnnl*", "oneapi/*", "omp.h"), ("backend/cpu/*",)),
    (("cuda*", "cublas*", "cudnn*", "cusolver*", "curand*", "cub/*"), ("backend/cuda/*", "distributed/nccl/*")),
    (("nccl*",), ("distributed/nccl/*",)),
    (("gloo/*",), ("distributed/gloo*",)),
    (("nlohmann/*",), ("exchange/*", "train/*", "examples/*")),
    (("zlib.h",), ("exchange/*", "train/*", "examples/*")),
    (("CLI/*",), ("examples/*",)),
    (("doctest/*",), ()),
    (("benchmark/*",), ()),
    (("fmt/*",), ("*",)),
    (("sys/*", "netinet/*", "arpa/*", "linux/*"), ("*",)),
)


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(str(path), pattern) for pattern in patterns)


def allowed_layers(path):
    layer = path.parts[0]
    allowed = LAYERS[layer] | {layer}
    for pattern, more in DISTRIBUTED_UPPER.items():
        if matches(path, [pattern]):
            allowed = allowed | more
    return allowed


def project_include_fault(path, header):
    """What is wrong with `path` including `<tutti/header>`, or None."""
    for folder in PRIVATE_FOLDERS:
        if str(header).startswith(folder) and not matches(path, (folder + "*", *PRIVATE_READERS)):
            return f"<tutti/{header}> is private to {folder}"
    if str(path) == UMBRELLA and str(header) == "exchange/eigen.h":
        return f"<tutti/{header}> would ask every program for Eigen"
    layer = path.parts[0]
    if layer not in LAYERS:
        return None
    if layer == "distributed" and not matches(path, DISTRIBUTED_UPPER):
        if str(header) in OBSERVER:
            return None
        if matches(header, DISTRIBUTED_UPPER):
            return f"the core of distributed/ may not include <tutti/{header}>"
    if header.parts[0] not in allowed_layers(path):
        return f"{path.parent}/ may not include <tutti/{header}>"
    return None


def third_party_fault(path, header):
    """What is wrong with `path` including the foreign `<header>`, or None."""
    if path.parts[0] in ("tests", "benches"):
        return None
    for headers, places in THIRD_PARTY:
        if matches(header, headers):
            return None if matches(path, places) else f"<{header}> belongs in {' '.join(places) or 'tests and benches'}"
    return f"<{header}> is of an unknown library; name its place in tools/layer_rules.py" if "/" in header else None


def must_be_listed(path):
    """Sources everywhere; headers where they are installed."""
    if str(path) == UMBRELLA:
        return True
    if path.parts[0] in LAYERS:
        is_private = str(path).startswith(PRIVATE_FOLDERS)
        return path.suffix in (".cpp", ".cu") or (path.suffix == ".h" and not is_private)
    return path.parts[0] in OUTER_FOLDERS and path.suffix == ".cpp"
