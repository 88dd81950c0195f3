# SPDX-License-Identifier: Apache-2.0
"""Reads the recorded steps of a trace that `write_chrome_trace` wrote: what each device did, and when each bucket was
ready, launched and finished. Times are microseconds of the trace.

Parameters that were launched and finished at the same times are one bucket. A file that ends early gives what it has.
"""

import bisect
import collections
import json
import statistics

MOST_STEPS = 256
LARGEST = 1e300


class TraceError(Exception):
    pass


def events_of(text):
    """The events, and how many lines could not be read; each event is on a line of its own where a file is cut."""
    try:
        content = json.loads(text)
        events = content.get("traceEvents") if isinstance(content, dict) else content
        if not isinstance(events, list):
            raise TraceError("it has no list 'traceEvents'")
        return [event for event in events if is_event(event)], 0
    except (ValueError, RecursionError):
        pass
    events, lost = [], 0
    for line in text.splitlines():
        line = line.strip().rstrip(",")
        if not line or line.startswith(('{"traceEvents"', "]")):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if is_event(event):
            events.append(event)
        else:
            lost += 1
    if not events:
        raise TraceError("it is no JSON, and none of its lines is an event")
    return events, lost


def is_event(value):
    """Whether it is an object whose process and thread can be told from others."""
    return isinstance(value, dict) and not any(isinstance(value.get(name), (dict, list)) for name in ("pid", "tid"))


def number(value):
    """The same if it is a number with which times can be counted, else None."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST else None


class Tracks:
    """Names of processes and threads."""

    def __init__(self, events):
        self.names, self.processes = {}, {}
        for event in events:
            if event.get("ph") == "M" and isinstance(event.get("args"), dict):
                name = str(event["args"].get("name", ""))
                if event.get("name") == "thread_name":
                    self.names[event.get("pid"), event.get("tid")] = name
                elif event.get("name") == "process_name":
                    self.processes[event.get("pid")] = name

    def process(self, pid):
        return self.processes.get(pid, "")

    def device(self, track):
        return self.names.get(track, f"track {track[1]}")


def spans_of(events):
    """(track, name, begin, end, generation) of each span of a step."""
    for event in events:
        arguments = event.get("args")
        begin, duration = number(event.get("ts")), number(event.get("dur"))
        if event.get("ph") != "X" or begin is None or duration is None or not isinstance(arguments, dict):
            continue
        generation = number(arguments.get("generation"))
        if generation is not None:
            yield (event.get("pid"), event.get("tid")), str(event.get("name", "")), begin, begin + duration, generation


def read_trace(text):
    """Steps of a trace, as a page holds them; throws TraceError where it has none."""
    events, lost = events_of(text)
    tracks = Tracks(events)
    backwards, forwards, joins, reductions = collections.defaultdict(list), {}, {}, []
    for track, name, begin, end, generation in spans_of(events):
        if tracks.device(track) == "reductions":  # there these are names of parameters
            reductions.append((track, name, begin, end, generation))
        elif name == "forward":
            forwards[track, round(end, 3)] = begin
        elif name == "backward":
            backwards[track].append((begin, end, generation))
        elif name == "join":
            joins[track, round(begin, 3)] = end
        else:
            reductions.append((track, name, begin, end, generation))
    if not backwards:
        raise TraceError("it has no steps that a group recorded")
    devices = sorted(backwards, key=str)
    steps = collect_steps(devices, forwards, backwards, joins)
    names = {}
    add_buckets(steps, reductions, names)
    add_ready(steps, events, devices, backwards, names)
    ordered = sorted(steps.values(), key=lambda step: step["begin"])
    return {"devices": [{"name": tracks.device(track), "process": tracks.process(track[0])} for track in devices],
            "names": list(names), "steps": ordered[-MOST_STEPS:], "recorded": len(ordered), "lost": lost,
            "hidden": hidden_shares(ordered, devices, tracks)}


def collect_steps(devices, forwards, backwards, joins):
    """Steps by generation and how many groups had one of it before. A device's row has its place, when its backward began and
    ended, when it joined, when it had joined the step before, and when the step was opened, which older traces do not say."""
    steps = {}
    for place, track in enumerate(devices):
        seen = collections.Counter()
        previous = None
        for begin, end, generation in sorted(backwards[track]):
            key = (generation, seen[generation])
            seen[generation] += 1
            step = steps.setdefault(key, {"generation": generation, "begin": begin, "end": end, "devices": [], "buckets": [],
                                          "ready": [], "processes": []})
            joined = joins.get((track, round(end, 3)))
            step["devices"].append([place, begin, end, joined, previous, forwards.get((track, round(begin, 3)))])
            step["processes"].append(track[0])
            step["begin"] = min(step["begin"], begin)
            step["end"] = max(step["end"], joined or end)
            previous = joined or end
    for step in steps.values():
        step["processes"] = sorted(set(step["processes"]), key=str)
    return steps


def add_buckets(steps, reductions, names):
    by_bucket = collections.defaultdict(list)
    for track, name, begin, end, generation in reductions:
        by_bucket[track[0], begin, end, generation].append(names.setdefault(name, len(names)))
    by_generation = collections.defaultdict(list)
    for (generation, _), step in steps.items():
        by_generation[generation].append(step)
    for (process, begin, end, generation), members in sorted(by_bucket.items(), key=lambda item: item[0][1]):
        for step in by_generation[generation]:
            if step["begin"] <= begin <= step["end"] + 1.0 and process in step["processes"]:
                step["buckets"].append([step["processes"].index(process), begin, end, members])
                step["end"] = max(step["end"], end)
                break


def add_ready(steps, events, devices, backwards, names):
    """When each parameter was final on each device: within the last backward that had begun there."""
    places = {track: place for place, track in enumerate(devices)}
    begins = {track: [begin for begin, _, _ in sorted(backwards[track])] for track in devices}
    by_begin = {(row[0], row[1]): step for step in steps.values() for row in step["devices"]}
    for event in events:
        name, at, track = str(event.get("name", "")), number(event.get("ts")), (event.get("pid"), event.get("tid"))
        if event.get("ph") != "i" or not name.startswith("final: ") or at is None or track not in places:
            continue
        before = bisect.bisect_right(begins[track], at) - 1
        if before >= 0:
            step = by_begin[places[track], begins[track][before]]
            step["ready"].append([places[track], at, names.setdefault(name.removeprefix("final: "), len(names))])


def hidden_shares(steps, devices, tracks):
    """Of each process: which share of its buckets' time passed before the last of its own backwards had ended, as C++'s
    SyncSummary::hidden has it, and which before the last backward of all processes."""
    sums = {}
    for step in steps:
        for process, pid in enumerate(step["processes"]):
            own = [row for row in step["devices"] if devices[row[0]][0] == pid]
            if any(row[3] is None for row in own):  # it has not ended
                continue
            ends = max(row[2] for row in own), max(row[2] for row in step["devices"])
            sum_of = sums.setdefault(pid, [0.0, 0.0, 0.0])
            for by, launched, finished, _ in step["buckets"]:
                if by == process:
                    for place, end in enumerate((finished, *ends)):
                        sum_of[place] += max(0.0, min(finished, end) - launched)
    return [{"process": tracks.process(pid), "own": own / whole, "all": every / whole} for pid, (whole, own, every) in sums.items() if whole > 0]


def parameters_of(trace):
    """Medians over the steps, by name: place in the order of readiness, when it was ready after backward's begin, how long
    its bucket took, and how many parameters that has."""
    ranks, ready, taken, together = (collections.defaultdict(list) for _ in range(4))
    for step in trace["steps"]:
        begins = {row[0]: row[1] for row in step["devices"]}
        by_device = collections.defaultdict(list)
        for device, at, name in step["ready"]:
            by_device[device].append((at, name))
            ready[name].append(at - begins[device])
        for finals in by_device.values():
            for place, (_, name) in enumerate(sorted(finals)):
                ranks[name].append(place + 1)
        for _, begin, end, members in step["buckets"]:
            for name in members:
                taken[name].append(end - begin)
                together[name].append(len(members))
    median = lambda values: statistics.median(values) if values else None  # noqa: E731
    return {text: {"order": median(ranks[name]), "ready": median(ready[name]), "reduction": median(taken[name]),
                   "together": median(together[name])} for name, text in enumerate(trace["names"])}
