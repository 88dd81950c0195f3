#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./dev gpu asks about the machine, and the document that it makes of its results.

  gpu_results.py --probe          the GPU's name; fails, and says why, without one that CUDA can use
  gpu_results.py --architecture   its architecture, as nvcc names it: 90
  gpu_results.py --machine        GPU, driver and versions as JSON
  gpu_results.py FOLDER --document FILE
"""

import argparse
import ctypes
import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys

NOT_HERE = 77
OUT_OF_TIME = 124
PACKED_COMMIT = pathlib.Path("build/gpu.pack/commit")  # of the programs that were brought along
# Of these there are sections with words of their own.
KNOWN_TABLES = {"memory", "matmul", "training"}


# --- the machine

class NoGpu(Exception):
    pass


def driver():
    """The driver's library, with a device."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"there is no NVIDIA driver ({error})") from error
    status = library.cuInit(0)
    count = ctypes.c_int(0)
    if status or library.cuDeviceGetCount(ctypes.byref(count)):
        raise NoGpu(f"the driver does not start (error {status})")
    if count.value == 0:
        raise NoGpu("the driver knows no device")
    return library


def gpu_name():
    name = ctypes.create_string_buffer(256)
    driver().cuDeviceGetName(name, 256, 0)
    return name.value.decode()


def architecture():
    library = driver()
    numbers = []
    for attribute in (75, 76):  # compute capability, major and minor
        value = ctypes.c_int(0)
        library.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        numbers.append(str(value.value))
    return "".join(numbers)


def first_line(*command, pattern="(.+)"):
    """What `pattern` finds in a command's output; empty when there is no such command."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(pattern, output)
    return found[1].strip() if found else ""


def driver_version():
    version = pathlib.Path("/proc/driver/nvidia/version")
    if version.exists():
        found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", version.read_text())
        if found:
            return found[1]
    return first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def nccl_version():
    for name in ("libnccl.so.2", "libnccl.so"):
        try:
            number = ctypes.c_int(0)
            if ctypes.CDLL(name).ncclGetVersion(ctypes.byref(number)) == 0:
                return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"
        except (OSError, AttributeError):
            pass
    return ""


def packed_commit():
    return PACKED_COMMIT.read_text().strip() if PACKED_COMMIT.exists() else ""


def machine():
    try:
        gpu = gpu_name()
    except NoGpu:
        gpu = ""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    return {
        "Date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "GPU": gpu or "none: a rehearsal on the CPU",
        "Driver": driver_version(),
        "CUDA": first_line(nvcc, "--version", pattern=r"release ([\d.]+)"),
        "NCCL": nccl_version(),
        "Compiler": first_line("g++", "--version"),
        "Commit": packed_commit() or first_line("git", "rev-parse", "--short", "HEAD"),
    }


# --- the document

def table(header, rows):
    """Markdown; all columns but the first to the right."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return lines


def load(folder, name):
    """A stage's JSON; None when it left none, or only a part."""
    try:
        return json.loads((folder / name).read_text())
    except (OSError, json.JSONDecodeError):
        return None


def read_log(folder, name):
    path = folder / f"{name}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def stages(folder):
    path = folder / "stages.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, int(status), int(seconds), int(limit)) for name, status, seconds, limit in map(str.split, lines)]


def outcome(folder, name, status):
    """How a stage ended, in words; why it could not run is the last line that it wrote."""
    if status == 0:
        return "done"
    last = ([""] + read_log(folder, name).strip().splitlines())[-1]
    if status == NOT_HERE:
        return f"skipped: {last}"
    return "out of time" if status == OUT_OF_TIME else f"failed (status {status})"


def stage_section(folder):
    rows = [(name, outcome(folder, name, status), f"{seconds} of {limit}")
            for name, status, seconds, limit in stages(folder)]
    return ["## Stages", "", *table(["stage", "outcome", "seconds"], rows)]


def comparison_section(folder):
    return ["## Every kernel beside the CPU", "", *test_lines(folder, "comparison.json")]


def test_section(folder):
    return ["## Tests", "", *test_lines(folder, "tests.json")]


def test_lines(folder, name):
    report = load(folder, name) or {}
    lines = []
    if not report:
        return [*lines, "None ran."]
    for device, run in report.items():
        executables = run["executables"]
        total = {key: sum(each[key] for each in executables.values()) for key in ("passed", "failed", "skipped")}
        lines.append(f"On {device} devices: {total['passed']} passed, {total['failed']} failed, "
                     f"{total['skipped']} skipped" + (f", {run['not_run']} not run." if run.get("not_run") else ".") + (f" Skipped, for {run['lacking']}." if run["lacking"] else ""))
        rows = [(name, each["passed"], each["failed"], each["skipped"], each["seconds"])
                for name, each in executables.items()]
        lines += ["", *table(["tests", "passed", "failed", "skipped", "seconds"], rows), ""]
        failures = [f"- {name}: {case}" for name, each in executables.items() for case in each["failures"]]
        if failures:
            lines += ["Failed:", "", *failures, ""]
    return lines[:-1] if not lines[-1] else lines


def rank_section(folder):
    runs = load(folder, "ranks.json")
    lines = ["## Ranks of NCCL as processes on one GPU", "", *test_lines(folder, "ranks-cases.json"), ""]
    if not runs:
        return [*lines, "Not measured."]
    rows = [(run["world"], run["result"], f"{run.get('difference', float('nan')):.1e}",
             f"{1e3 * run.get('step_seconds', float('nan')):.2f}",
             f"{1e3 * run.get('exposed_seconds', float('nan')):.2f}") for run in runs]
    return [*lines, *table(["processes", "result", "distance from one rank", "step, ms", "exposed, ms"], rows)]


def rate(row, unit):
    return f"{row['work'] / row['seconds'] / unit:,.1f}"


def beside_peer(row):
    if not row["peer"]:
        return "", ""
    peer_rate = row["peer_work"] / row["peer_seconds"]
    return peer_rate, f"{100 * row['work'] / row['seconds'] / peer_rate:.1f} %"


def memory_section(folder):
    rows = load(folder, "memory.json")
    lines = ["## Kernels that memory bounds", ""]
    if not rows:
        return [*lines, "Not measured."]
    return [*lines, *table(["kernel", "ms", "GB/s", "of the copy"],
                           [(row["name"], f"{1e3 * row['seconds']:.3f}", rate(row, 1e9), beside_peer(row)[1])
                            for row in rows])]


def product_section(folder):
    rows = (load(folder, "matmul.json") or [])
    rows += [row for row in load(folder, "matmul_tf32.json") or [] if row["name"] == "tf32"]
    lines = ["## Matrix products", ""]
    if not rows:
        return [*lines, "Not measured."]
    shown = []
    for row in rows:
        peer, share = beside_peer(row)
        shown.append((row["name"], rate(row, 1e12), f"{peer / 1e12:,.1f}" if peer else "", share))
    return [*lines, *table(["dtype", "TFLOP/s", "cuBLAS", "share"], shown)]


def beside_torch(row, torch):
    """Milliseconds of PyTorch's row of the same name, and how many times as fast ours is."""
    peer = torch.get(row["name"])
    return (f"{1e3 * peer['seconds']:.3f}", f"{peer['seconds'] / row['seconds']:.2f}") if peer else ("not measured", "")


def other_sections(folder):
    """Tables that the benches have besides, in the order of their names."""
    torch = {row["name"]: row for row in load(folder, "torch.json") or []}
    lines = []
    for path in sorted(folder.glob("*.json")):
        rows = load(folder, path.name)
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and "table" in row for row in rows):
            continue
        if rows[0]["table"] in KNOWN_TABLES:
            continue
        what, unit = ("tokens, 1e3/s", 1e3) if rows[0]["table"] == "gpt2" else ("bytes or operations, 1e9/s", 1e9)
        shown = [(row["name"], f"{1e3 * row['seconds']:.3f}", rate(row, unit), *beside_torch(row, torch))
                 for row in rows]
        lines += [f"## Benches: {rows[0]['table'].replace('_', ' ')}", "",
                  *table(["what", "ms", what, "PyTorch, ms", "times as fast"], shown), ""]
    return lines[:-1]


def training_section(folder):
    rows = load(folder, "training.json")
    torch = {row["name"]: row for row in load(folder, "torch.json") or []}
    lines = ["## Training steps", ""]
    if not rows:
        return [*lines, "Not measured."]
    shown = [(row["name"], f"{1e3 * row['seconds']:.3f}", *beside_torch(row, torch)) for row in rows]
    version = next((row["torch"] for row in torch.values()), "")
    return [*lines, *table(["model", "ms", f"PyTorch {version}, eager, ms".replace(" ,", ","), "times as fast"], shown)]


def sanitizer_result(folder, name, status):
    """What all processes of a tool found; each has written a file."""
    outputs = [path.read_text(errors="replace") for path in sorted((folder / name).glob("*.txt"))]
    summaries = [re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)", output) for output in outputs]
    if not any(summaries):
        return outcome(folder, name, status) if status else "no process wrote what it found"
    found = sum(int(numbers[-1]) for numbers in summaries if numbers)
    finished = sum(map(bool, summaries))
    rest = "" if status != OUT_OF_TIME else "; out of time"
    return f"{found} errors in {finished} of {len(outputs)} processes{rest}"


def sanitizer_section(folder):
    lines = ["## Sanitizers", ""]
    rows = [(name, sanitizer_result(folder, name, status)) for name, status, _, _ in stages(folder)
            if name in ("memcheck", "racecheck")]
    lines += table(["tool", "result"], rows) if rows else ["None ran."]
    kinds = {}
    for path in sorted(folder.glob("*check/*.txt")):
        for error in re.findall(r"^=+ ((?:Invalid|Error|Race|Program hit|Out-of-range|Misaligned).*)$",
                                path.read_text(errors="replace"), re.MULTILINE):
            kinds[error] = kinds.get(error, 0) + 1
    if kinds:
        lines += ["", "Found:", "", *[f"- {count} times: {error}" for error, count in list(kinds.items())[:20]]]
    return lines


def profile_section(folder):
    """The figures that ncu printed of each kernel."""
    wanted = {"Duration": "", "Memory Throughput": "%", "DRAM Throughput": "%", "Compute (SM) Throughput": "%",
              "Achieved Occupancy": "%", "Registers Per Thread": "register/thread"}
    names = "|".join(map(re.escape, wanted))
    rows, figures = [], {}
    for line in read_log(folder, "profile").splitlines():
        if begun := re.fullmatch(r"== (\w+)", line):
            figures = {}
            rows.append((begun[1], figures))
        elif found := re.fullmatch(rf"\s+({names})\s+(\S+)\s+([\d.,]+)\s*", line):
            if wanted[found[1]] in ("", found[2]):
                figures.setdefault(found[1], f"{found[3]} {found[2]}" if found[1] == "Duration" else found[3])
    rows = [(name, *[figures.get(key, "") for key in wanted]) for name, figures in rows if figures]
    header = ["kernel", "duration", "memory, %", "DRAM, %", "compute, %", "occupancy, %", "registers"]
    return ["## Kernels in the profiler", "", *(table(header, rows) if rows else ["Not measured."])]


def document(folder):
    about = load(folder, "machine.json") or {}
    lines = ["# Results on a GPU", "", "Written by `./dev gpu`; the command measures and checks all of it again.", "",
             *table(["", ""], [(key, value or "unknown") for key, value in about.items()]), ""]
    for section in (stage_section, comparison_section, memory_section, product_section, other_sections, training_section,
                    test_section, sanitizer_section, profile_section, rank_section):
        if shown := section(folder):
            lines += [*shown, ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--document", type=pathlib.Path)
    for question in ("probe", "architecture", "machine"):
        parser.add_argument(f"--{question}", action="store_true")
    options = parser.parse_args()
    try:
        if options.probe:
            print(gpu_name())
        elif options.architecture:
            print(architecture())
        elif options.machine:
            print(json.dumps(machine(), indent=1))
        elif options.folder and options.document:
            options.document.write_text(document(options.folder))
        else:
            parser.error("a folder and --document, or a question")
    except NoGpu as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
