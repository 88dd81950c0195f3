# SPDX-License-Identifier: Apache-2.0
"""Breaks every rule of check_layers.py once, in a temporary tree, and expects each to be caught where it stands."""

import pathlib
import tempfile

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"

# path -> text: a tree without faults.
SOUND = {
    "backend/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'array.h' 'raise.h' 'shape.h' 'devices/registry.cpp' 'cpu/exp.cpp' 'cuda/exp.cu'\n",
    "backend/array.h": SPDX + "#include <tutti/backend/shape.h>\n#include <vector>\n",
    "backend/shape.h": SPDX,
    "backend/raise.h": SPDX + "#include <fmt/format.h>\n",
    "backend/operations/meson.build": "# SPDX-License-Identifier: Apache-2.0\noperations = {\n"
        "  'sort': ['arrays', 'kernels'],\n  'wire': ['element_kernels'],\n}\nfiles(operation_sources['arrays'])\n",
    "backend/operations/sort.cpp": SPDX,
    "backend/cuda/kernels/meson.build": "# SPDX-License-Identifier: Apache-2.0\n"
        "files(operation_sources['kernels'])\nfiles(operation_sources['element_kernels'], 'copy.cu')\n",
    "backend/cuda/kernels/copy.cu": SPDX,
    "backend/cuda/kernels/sort.cu": SPDX,
    "backend/cuda/kernels/wire.cu": SPDX,
    "backend/devices/registry.cpp": SPDX + "#include <tutti/backend/cpu/pack.h>\n",
    "backend/cpu/pack.h": SPDX + "#include <Eigen/Core>\n#include <tutti/backend/raise.h>\n#include <tutti/backend/array.h>\n",
    "backend/cpu/exp.cpp": SPDX + "#include <fmt/format.h>\n#include <tutti/backend/cpu/pack.h>\n",
    "autodiff/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'tensor.h' 'observer/gradient_observer.h'\n",
    "autodiff/tensor.h": SPDX + "#include <tutti/autodiff/observer/gradient_observer.h>\n",
    "autodiff/observer/gradient_observer.h": SPDX
        + "namespace tutti {\nnamespace {\nstruct Own {\n};\n}  // namespace\nstruct Message {\n};\nstruct Message::Part {\n};\n}  // namespace tutti\n",
    "exchange/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'eigen.h' 'npy.h'\n",
    "exchange/eigen.h": SPDX + "#include <Eigen/Core>\n#include <tutti/backend/array.h>\n",
    "exchange/npy.h": SPDX + "#include <tutti/backend/array.h>\n",
    "distributed/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'ledger/sync_ledger.h' 'gradient_sync.h' 'options.h'\n"
        "'server/steps.h' 'engines/nccl/task.cpp' 'engines/choice.cpp'\n",
    "distributed/options.h": SPDX,
    "distributed/ledger/sync_ledger.h": SPDX + "#include <tutti/autodiff/observer/gradient_observer.h>\n#include <tutti/distributed/options.h>\n",
    "distributed/server/steps.h": SPDX + "#include <tutti/distributed/ledger/sync_ledger.h>\n",
    "distributed/gradient_sync.h": SPDX + "#include <tutti/autodiff/tensor.h>\n#include <tutti/distributed/server/steps.h>\n",
    "distributed/engines/nccl/task.h": SPDX,
    "distributed/engines/nccl/task.cpp": SPDX + "#include <nccl.h>\n#include <tutti/backend/cuda/launch.h>\n",
    "distributed/engines/choice.cpp": SPDX + "#include <tutti/distributed/engines/nccl/task.h>\n",
    "backend/cuda/launch.h": SPDX,
    "command/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'tutti.cpp' 'info/report.cpp'\n",
    "command/tutti.cpp": SPDX + "#include <CLI/CLI.hpp>\n#include <tutti/command/launch/plan.h>\n",
    "command/launch/plan.h": SPDX + "#include <tutti/version.h>\n",
    "command/info/report.cpp": SPDX + "#include <nlohmann/json.hpp>\n#include <tutti/backend/array.h>\n"
        "#include <tutti/exchange/npy.h>\n",
    "version.h": SPDX,
    "c_api/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'calls/calls.cpp' 'model_registry.h'\n",
    "c_api/calls/calls.cpp": SPDX + "#include <tutti/c_api.h>\n#include <tutti/exchange/npy.h>\n#include <tutti/c_api/calls/guard.h>\n",
    "c_api/calls/guard.h": SPDX + "#include <fmt/format.h>\n",
    "c_api/model_registry.h": SPDX,
    "bench.h": SPDX + "#include <tutti/backend/array.h>\n",
    "c_api.h": SPDX + "#include <stddef.h>\n",
    "meson.build": "# SPDX-License-Identifier: Apache-2.0\n'tutti.h' 'c_api.h' 'version.h' 'bench.h'\n",
    "tutti.h": SPDX + "#include <tutti/autodiff/tensor.h>\n",
    "tests/meson.build": "# SPDX-License-Identifier: Apache-2.0\n'backend/array_test.cpp'\n",
    "tests/backend/array_test.cpp": SPDX + "#include <doctest/doctest.h>\n#include <tutti/backend/cpu/pack.h>\n",
}

OPERATIONS = "backend/operations/meson.build"
LEDGER = "distributed/ledger/sync_ledger.h"

# What is broken: (path, text, the line that must be named, a part of the message).
BROKEN = (
    ("exchange/npy.h", SPDX + "namespace tutti {\nstruct Message {\n};\n}  // namespace tutti\n", 3, "is the name of another type"),
    ("backend/array.h", SPDX + "#include <tutti/autodiff/tensor.h>\n", 2, "may not include"),
    ("autodiff/tensor.h", SPDX + "\n#include <tutti/distributed/options.h>\n", 3, "may not include"),
    ("autodiff/tensor.h", SPDX + "#include <tutti/tests/x.h>\n", 2, "may not include"),
    ("autodiff/observer/gradient_observer.h", SPDX + "#include <tutti/autodiff/engine/x.h>\n", 2, "autodiff/observer/ may not include"),
    (LEDGER, SPDX + "#include <tutti/autodiff/tensor.h>\n", 2, "distributed/ledger/ may not include"),
    (LEDGER, SPDX + "#include <tutti/distributed/server/mailbox.h>\n", 2, "distributed/ledger/ may not include"),
    ("distributed/server/steps.h", SPDX + "#include <tutti/distributed/new.h>\n#include <tutti/distributed/options.h>\n"
     "#include <tutti/distributed/engines/x.h>\n", 4, "distributed/server/ may not include"),
    ("distributed/options.h", SPDX + "#include <tutti/autodiff/tensor.h>\n", 3, "through <tutti/distributed/options.h>", LEDGER),
    ("distributed/server/steps.h", SPDX + "#include <tutti/distributed/engines/nccl/task.h>\n", 2, "private to distributed/engines/nccl/"),
    ("distributed/server/steps.h", SPDX + "#include <tutti/backend/cuda/launch.h>\n", 2, "private to backend/cuda/"),
    ("command/tutti.cpp", SPDX + "#include <tutti/backend/array.h>\n", 2, "command/ may not include"),
    ("command/launch/plan.h", SPDX + "#include <tutti/backend/array.h>\n", 2, "command/launch/ may not include"),
    ("command/launch/plan.h", SPDX + "#include <tutti/command/info/report.h>\n", 2, "command/launch/ may not include"),
    ("command/launch/plan.h", SPDX + "#include <nlohmann/json.hpp>\n", 2, "belongs in bench/* exchange"),
    ("command/info/report.cpp", SPDX + "#include <tutti/autodiff/tensor.h>\n", 2, "command/info/ may not include"),
    ("command/info/report.cpp", SPDX + "#include <tutti/command/launch/plan.h>\n", 2, "command/info/ may not include"),
    ("version.h", SPDX + "#include <tutti/backend/array.h>\n", 2, "is for all"),
    ("autodiff/tensor.h", SPDX + "#include <tutti/command/launch/plan.h>\n", 2, "private to command/"),
    ("backend/array.h", SPDX + "#include <fmt/format.h>\n", 2, "for the headers of fmt"),
    ("exchange/npy.h", SPDX + "#include <tutti/backend/raise.h>\n", 2, "for the headers of fmt"),
    ("backend/array.h", SPDX + "#include <Eigen/Core>\n", 2, "belongs in backend/cpu"),
    ("exchange/npy.h", SPDX + "#include <Eigen/Core>\n", 2, "belongs in backend/cpu"),
    ("exchange/npy.h", SPDX + "#include <tutti/distributed/options.h>\n", 2, "may not include"),
    ("exchange/npy.h", SPDX + "#include <tutti/tutti.h>\n", 2, "may not include"),
    ("exchange/npy.h", SPDX + "#include <tutti/c_api.h>\n", 2, "may not include"),
    ("exchange/npy.h", SPDX + "#include <tutti/c_api/model_registry.h>\n", 2, "may not include"),
    ("bench.h", SPDX + "#include <tutti/exchange/npy.h>\n", 2, "bench.h may not include"),
    ("c_api.h", SPDX + "#include <tutti/c_api/model_registry.h>\n", 2, "is C++"),
    ("c_api/model_registry.h", SPDX + "#include <fmt/format.h>\n", 2, "for the headers of fmt"),
    ("tests/backend/array_test.cpp", SPDX + "#include <tutti/c_api/calls/guard.h>\n", None, ""),
    ("exchange/npy.h", SPDX + "#include <tutti/c_api/calls/guard.h>\n", 2, "private to c_api/calls/"),
    ("tutti.h", SPDX + "#include <tutti/exchange/eigen.h>\n", 2, "every program"),
    ("tutti.h", SPDX + "#include <tutti/backend/cpu/exp.h>\n", 2, "private"),
    ("backend/array.h", SPDX + "#include <Eigen/Core>\n", 2, "belongs in backend/cpu"),
    ("backend/cpu/exp.cpp", SPDX + "# include <cuda_runtime.h>\n", 2, "belongs in backend/cuda"),
    (LEDGER, SPDX + "#include <nlohmann/json.hpp>\n", 2, "belongs in bench/* exchange"),
    ("backend/array.h", SPDX + "#include <boost/any.hpp>\n", 2, "unknown library"),
    ("autodiff/tensor.h", SPDX + "#include <tutti/backend/cpu/pack.h>\n", 2, "private"),
    ("backend/cuda/exp.cu", SPDX + "#include <tutti/backend/cpu/pack.h>\n", 2, "private"),
    ("autodiff/tensor.h", SPDX + '#include "gradient_observer.h"\n', 2, "instead of"),
    ("backend/array.h", SPDX + "#include <tutti/backend/array.h>\n", 2, "include cycle"),
    ("backend/shape.h", SPDX + "#include <tutti/backend/array.h>\n", 2, "include cycle"),
    ("backend/cpu/pack.h", SPDX + "// line\n" * 400, 401, "401 lines"),
    ("tools/build.sh", "# SPDX-License-Identifier: Apache-2.0\n" + "true\n" * 400, 401, "401 lines"),
    ("backend/cpu/shape_utils.h", SPDX, 1, "says nothing"),
    ("tools/common/paths.py", "# SPDX-License-Identifier: Apache-2.0\n", 1, "says nothing"),
    ("autodiff/tensor.h", "#pragma once\n", 1, "SPDX"),
    ("autodiff/engine/graph.cpp", SPDX, 1, "no meson.build lists it"),
    ("autodiff/graph.h", SPDX, 1, "no meson.build lists it"),
    ("backend/cuda/log.cu", SPDX, 1, "no meson.build lists it"),
    ("tests/backend/forgotten_test.cpp", SPDX, 1, "no meson.build lists it"),
    ("backend/operations/gather.cpp", SPDX, 1, "no meson.build lists it"),
    ("backend/cuda/kernels/gather.cu", SPDX, 1, "no meson.build lists it"),
    ("autodiff/operations/sort.cpp", SPDX, 1, "no meson.build lists it"),
    (OPERATIONS, SOUND[OPERATIONS].replace("}", "  'gather': [],\n}"), 5, "'gather' has a source in no folder"),
    (OPERATIONS, SOUND[OPERATIONS].replace("}", "  'gahter': ['arrays'],\n}"), 5, "there is no backend/operations/gahter.cpp"),
    (OPERATIONS, SOUND[OPERATIONS].replace("'kernels'", "'kernels', 'cpu'"), 3, "there is no backend/cpu/operations/sort.cpp"),
    (OPERATIONS, SOUND[OPERATIONS].replace("'kernels'", "'kernels', 'tensor'"), 3, "'tensor' is no folder of operations"),
    (OPERATIONS, SOUND[OPERATIONS].replace("'arrays', ", ""), 1, "no meson.build lists it", "backend/operations/sort.cpp"),
    (OPERATIONS, SOUND[OPERATIONS].replace("operation_sources['arrays']", ""), 1, "no meson.build lists it", "backend/operations/sort.cpp"),
)


def crowded(folder, count):
    """A tree with a folder of so many files."""
    return SOUND | {f"{folder}/part{number}.h": SPDX for number in range(count)}


def faults_of(check, files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            target = pathlib.Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return check(pathlib.Path(folder))


def caught(faults, path, line, message):
    """Exactly the one fault, or none when none is expected."""
    if line is None:
        return not faults
    return len(faults) == 1 and faults[0].startswith(f"{path}:{line}: ") and message in faults[0]


def run(check):
    cases = [("a sound tree", dict(SOUND), "", None, None)]
    for path, text, line, message, *named in BROKEN:
        cases.append((f"{path} ({message})", SOUND | {path: text}, named[0] if named else path, line, message))
    cases += [("30 files", crowded("backend/cuda/plans", 30), "", None, None),
              ("31 files", crowded("backend/cuda/plans", 31), "backend/cuda/plans", 1, "31 files; at most 30"),
              ("an operation each", crowded("backend/cuda/operations", 31), "", None, None),
              ("a source at a layer's top", SOUND | {"nn/linear.cpp": SPDX, "nn/meson.build": "# SPDX-License-Identifier: "
               "Apache-2.0\n'linear.cpp'\n"}, "nn/linear.cpp", 1, "headers alone")]
    failed = 0
    for name, files, path, line, message in cases:
        faults = faults_of(check, files)
        if not caught(faults, path, line, message):
            failed += 1
            print(f"self-test: {name}: expected {message!r} at line {line}, got {faults}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
