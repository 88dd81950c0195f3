# SPDX-License-Identifier: Apache-2.0
"""What ./dev bench --peers compares: each function gives the comparisons of one part."""

import json
import pathlib
import re

from measure import Comparison, Variant, parse_lines
from programs import Program

HERE = pathlib.Path(__file__).parent

# --- all-reduce

SIZES = [1 << 20, 4 << 20, 16 << 20, 64 << 20]
OF_PROCESSES = {64 << 10: 5.0, 1 << 20: 5.0, 4 << 20: 3.0, 16 << 20: 3.0, 64 << 20: 3.5}  # wanted, beside Open MPI


def google_benches(output):
    """What a program of Google Benchmark has measured; [] for an output of another program."""
    document = re.search(r"^\{$", output, re.MULTILINE)
    return json.JSONDecoder().raw_decode(output, document.start())[0]["benchmarks"] if document else []


def parse_all_reduce(output):
    """Ours are Google Benchmark's, theirs a line for each size."""
    if benches := google_benches(output):
        return {int(re.search(r"/bytes:(\d+)/", bench["name"])[1]): bench["us"] for bench in benches}
    return parse_lines("bytes", "us")(output)


def size_text(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def of_bench(side, options, pattern, sizes):
    command = [str(options.folder / "distributed_bench"), f"--benchmark_filter={pattern}", "--benchmark_format=json"]
    return Variant(side, "", [Program(command, sizes)])


def all_reduce(options):
    """Between two devices of one process."""
    sizes = "|".join(map(str, SIZES))
    wanted = {"Gloo": dict.fromkeys(SIZES, 7.0), "Open MPI": dict.fromkeys(SIZES, 2.5)}
    return [Comparison(
        title=f"All-reduce of f32, each buffer just {'written by its rank' if written else 'reduced before'}",
        unit="µs", rows=SIZES, parse=parse_all_reduce,
        peers=gloo(options, SIZES, written, calls=4) + open_mpi(options, SIZES, written, calls=4),
        ours=[of_bench(f"Tutti, {label}", options, f"{name}/bytes:({sizes})/written:{written}/", SIZES)
              for label, name in (("engine", "all_reduce_communicator"), ("server", "all_reduce_server"))],
        shown=size_text, wanted=wanted,
        note="Ours is one process with two threads; theirs are two processes. In place, buffers that stay; each rank "
             "on a core; a meeting before each call, not timed; until the result is in rank 0's buffer; medians of "
             "means of four calls.")
        for written in (0, 1)]


def processes(options):
    """All-reduce between two processes."""
    sizes = list(OF_PROCESSES)
    return [Comparison(
        title="All-reduce of f32 between two processes, each buffer just reduced before", unit="µs",
        rows=sizes, parse=parse_all_reduce, shown=size_text,
        ours=[of_bench("Tutti, shared memory", options, "all_reduce_shared_memory", sizes)],
        peers=gloo(options, sizes, written=0, calls=1) + open_mpi(options, sizes, written=0, calls=1),
        wanted={"Gloo": OF_PROCESSES, "Open MPI": OF_PROCESSES},
        note="Two processes each, on a core each; in place, buffers that stay (ours in shared memory); a meeting before "
             "each call, not timed; until the result is in rank 0's buffer; medians of single calls.")]


def gloo(options, sizes, written, calls):
    """`calls`, of which a sample is the mean, are as many as in the bench of ours."""
    program = str(options.folder / "peers/gloo_all_reduce")
    return [Variant("Gloo", how, [Program([program, *how.split(), str(written), str(calls)], sizes)])
            for how in ("ring block bound", "ring block free", "bcube block bound", "ring_chunked block bound",
                        "ring_chunked poll bound", "halving_doubling block bound", "halving_doubling poll bound")]


def open_mpi(options, sizes, written, calls):
    vader = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"]
    tuned = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]
    settings = {
        "as it comes": [],
        "recursive doubling": [*vader, *tuned, "3"],
        "ring": [*vader, *tuned, "4"],
        "segmented ring": [*vader, *tuned, "5"],
        "Rabenseifner": [*vader, *tuned, "6"],
        "Rabenseifner, copies in and out": [*vader, "--mca", "btl_vader_single_copy_mechanism", "none", *tuned, "6"],
    }
    # The ranks bind themselves. In a container mpirun is often run as root, which it wants to be told.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    start = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", "--timeout", "290"]
    program = str(options.folder / "peers/mpi_all_reduce")
    return [Variant("Open MPI", name, [Program([*start, *words, program, name, str(written), str(calls)], sizes,
                                               environment=root)])
            for name, words in settings.items()]


# --- training steps, beside PyTorch

# {model: steps of a run}
ONE_DEVICE = {"mlp_4x8_10": 3000, "mlp_784_512_512_10": 200, "mlp_784_4x1024_10": 10, "digits_cnn": 200, "cnn_1_32_64": 20,
              "gpt_4x128": 10, "gpt_6x384": 3, "lstm_2x256": 6, "resnet_18": 3}
TWO_DEVICES = {"mlp_4x8_10": 3000, "mlp_784_512_512_10": 300, "mlp_784_4x1024_10": 20, "gpt_4x128": 20}
WAYS = ("eager", "channels_last", "compiled", "channels_last_compiled")
IMAGES = ("digits_cnn", "cnn_1_32_64", "resnet_18")
WANTED = {("f32", 1): {"mlp_4x8_10": 12, "mlp_784_512_512_10": 1.25, "mlp_784_4x1024_10": 1.15, "digits_cnn": 1.5,
                       "cnn_1_32_64": 1.4, "gpt_4x128": 1.4, "gpt_6x384": 1.2, "lstm_2x256": 1.05, "resnet_18": 1.2},
          ("bf16", 1): {"mlp_784_4x1024_10": 1.2, "gpt_4x128": 1.2, "gpt_6x384": 1.2, "resnet_18": 1.0},
          "two devices": {"mlp_784_512_512_10": 3.5, "mlp_784_4x1024_10": 1.3}}
SECONDS_OF_STEPS = 600  # of which torch.compile may take most


def chosen(steps, options):
    return {model: str(count) for model, count in steps.items() if options.models.search(model)}


def step_programs(options, models, threads, dtype, way=None, measures=lambda model: [model]):
    """Ours, or one of PyTorch's ways: a program for each of {model: steps}."""
    command = [str(options.folder / "model_steps")] if way is None else [options.torch, str(HERE / "torch_steps.py")]
    return [Program([*command, name, threads, steps, dtype, *([way] if way else [])], measures(name), seconds=SECONDS_OF_STEPS)
            for name, steps in models.items() if way is None or "channels_last" not in way or name in IMAGES]


def step(options):
    """Of one device, by numbers of threads and types."""
    models = chosen(ONE_DEVICE, options)

    def comparison(threads, dtype):
        return Comparison(
            title=f"Training step of one device, {threads} thread{'s' * (threads > 1)}, {dtype}", unit="ms",
            rows=list(models), parse=parse_lines("model", "processor_ms" if threads == 1 else "clock_ms"),
            ours=[Variant("Tutti", "", step_programs(options, models, str(threads), dtype))],
            peers=[Variant("PyTorch", way, step_programs(options, models, str(threads), dtype, way)) for way in WAYS],
            wanted={"PyTorch": WANTED.get((dtype, threads), {})},
            note="benches/models.h; with one thread the processor's time, which holds beside other work, with more the "
                 "clock's. PyTorch's optimizers are its fused ones" + ("; bf16 under Autocast." if dtype == "bf16" else "."))

    return [comparison(threads, dtype) for threads in options.threads for dtype in options.types]


MEMORY = {"process": "peak_mb", "added by steps": "steps_mb"}


def parse_memory(output):
    return {f"{model}, {what}": megabytes for what, key in MEMORY.items()
            for model, megabytes in parse_lines("model", key)(output).items()}


def memory(options):
    """Of steps of one device: what the process has at most, and what the steps add to what stood before them."""
    models = chosen(dict.fromkeys(ONE_DEVICE, 3), options)

    def measures(model):
        return [f"{model}, {what}" for what in MEMORY]

    def programs(dtype, way=None):
        return step_programs(options, models, "1", dtype, way, measures)

    rows = [row for model in models for row in measures(model)]
    return [Comparison(
        title=f"Memory of a training, {dtype}", unit="MB", rows=rows, parse=parse_memory,
        ours=[Variant("Tutti", "", programs(dtype))], peers=[Variant("PyTorch", way, programs(dtype, way)) for way in WAYS[:2]],
        wanted={"PyTorch": dict.fromkeys(rows, 1.0)},
        note="benches/models.h, one thread, three steps; resident memory at its most (VmHWM). With torch.compile the "
             "compiler's own memory would count.")
        for dtype in options.types]


OPERATIONS = {"add": 10, "multiply": 8, "relu": 10, "matmul": 8}  # wanted of each, called one by one


def parse_operations(output):
    """Ours are Google Benchmark's, theirs a line for each operation."""
    if benches := google_benches(output):
        return {bench["name"].split("/")[1]: bench["operation_ns"] if "operation_ns" in bench else 1e9 * bench["per_op"]
                for bench in benches}
    return parse_lines("operation", "ns")(output)


def operations(options):
    """An operation of a chain of a hundred."""
    script, names = str(HERE / "torch_operations.py"), "|".join(OPERATIONS)

    def comparison(what, way, bench, pattern, wanted):
        command = [str(options.folder / bench), f"--benchmark_filter=^{pattern}", "--benchmark_format=json"]
        return Comparison(
            title=f"Operation of a chain of a hundred on 8 x 8 f32, {what}, forward and backward", unit="ns",
            rows=list(OPERATIONS), parse=parse_operations,
            ours=[Variant("Tutti", "", [Program(command, list(OPERATIONS))])],
            peers=[Variant("PyTorch", way, [Program([options.torch, script, way], list(OPERATIONS))])],
            wanted={"PyTorch": wanted}, note="One thread, its processor time; the chain's time by its length.")

    return [comparison("called one by one", "eager", "autodiff_bench", f"chain/({names})$", OPERATIONS),
            comparison("captured or compiled", "compiled", "training_bench", f"captured_chain/({names})/64/", {})]


def devices(options):
    """Training steps of two devices."""
    models = chosen(TWO_DEVICES, options)
    bench, script = str(options.folder / "process_steps"), str(HERE / "ddp_steps.py")

    def variant(side, command, ranks):
        return Variant(side, "", [Program([*command(name, count)], [name], ranks, seconds=SECONDS_OF_STEPS)
                                  for name, count in models.items()])

    return [Comparison(
        title="Training step of two devices of one thread", unit="ms", rows=list(models), parse=parse_lines("model", "ms"),
        ours=[variant("Tutti, 1 process x 2", lambda name, count: [bench, name, "2", count], 1),
              variant("Tutti, 2 processes x 1", lambda name, count: [bench, name, "1", count], 2)],
        peers=[variant("PyTorch, DistributedDataParallel", lambda name, count: [options.torch, script, name, count], 2)],
        wanted={"PyTorch, DistributedDataParallel": WANTED["two devices"]},
        note="benches/models.h. PyTorch: two processes over Gloo, gradients as views of buckets, fused optimizers.")]


PARTS = {"all_reduce": all_reduce, "processes": processes, "operations": operations, "step": step, "memory": memory, "devices": devices}
