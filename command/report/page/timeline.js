// SPDX-License-Identifier: Apache-2.0
// The timeline of recorded steps: all of them as bars, and one of them with what each device did and when each bucket was
// ready, launched and finished. What a reduction takes behind the last device's backward is exposed; behind the last
// reduction a device waits for its release.

const kLane = 24, kBucketLane = 15, kLeft = 150, kRight = 14, kAxis = 22;
const kKinds = [["before", "data, optimizer (between steps; not recorded apart)"], ["forward", "forward: from the step's opening to its synchronised backward"], ["backward", "backward"], ["wait", "waiting for the slowest device"],
  ["bucket", "reduction of a bucket, hidden behind some backward"], ["exposed", "exposed: reductions after every device's backward"], ["release", "release: all is reduced, the device has not gone on yet"]];

// Times of a step that its parts have in common. Traces of earlier versions do not say when a step was opened.
function stepTimes(step) {
  const last = Math.max(...step.devices.map(([, , end]) => end));
  const ends = step.devices.map(([, , end, joined]) => joined ?? end), previous = step.devices.map((row) => row[4]).filter((at) => at !== null);
  const opens = step.devices.map((row) => row[5]).filter((at) => at !== null), opened = Math.min(step.begin, ...opens);
  const end = Math.max(...ends), before = previous.length ? Math.max(0, opened - Math.max(...previous)) : 0;
  const reducedAt = Math.max(last, ...step.buckets.map(([, , finished]) => finished));
  return {last, end, before, opened, forward: opens.length ? step.begin - opened : null, reducedAt, whole: end - step.begin, backward: last - step.begin, exposed: reducedAt - last, release: Math.max(0, end - reducedAt),
    waits: step.devices.map(([, , own]) => last - own)};
}

// Names of devices with their processes, where there are several.
function deviceNames(trace) {
  const several = new Set(trace.devices.map((device) => device.process)).size > 1;
  return trace.devices.map(({name, process}) => several && process && !name.includes(process) ? `${process}, ${name}` : name);
}

// When the last of a bucket's parameters was ready on each device of its process.
function bucketReady(trace, step, [process, , , members]) {
  const of = step.devices.filter(([device]) => trace.devices[device].process === step.processNames[process]).map(([device]) => device);
  return of.map((device) => [device, step.ready.filter(([on, , name]) => on === device && members.includes(name)).reduce((latest, [, at]) => Math.max(latest, at), -Infinity)])
    .filter(([, at]) => at > -Infinity);
}

class Timeline {
  constructor(element) { this.element = element; this.run = 0; this.step = null; this.window = null; }

  use(data) {
    this.data = data;
    this.runs = data.runs.map((run, place) => ({place, name: run.name, trace: run.trace})).filter((run) => run.trace);
    this.run = Math.min(this.run, Math.max(0, this.runs.length - 1));
    for (const {trace} of this.runs) for (const step of trace.steps) {
      step.times = stepTimes(step);
      step.processNames = [...new Set(step.devices.map(([device]) => trace.devices[device].process))];
    }
    this.redraw();
  }

  redraw() {
    if (!this.data) return;
    const title = make("h2", {}, "Steps");
    if (this.runs.length === 0) {
      this.element.replaceChildren(title, make("p", {class: "faint"}, "Steps are not recorded: there is no trace.json with steps of a group beside the metrics."));
      return;
    }
    const {trace} = this.runs[this.run], steps = trace.steps;
    if (this.step === null || this.step >= steps.length) this.step = typicalStep(steps);
    this.names = deviceNames(trace);
    this.overview = make("div");
    this.detail = make("div");
    this.element.replaceChildren(title, ...[tabs(this.runs.map((run) => run.name), this.run, (place) => { this.run = place; this.step = null; this.window = null; this.redraw(); })].filter(Boolean),
      this.comparison(), make("p", {class: "faint"}, recordedText(trace)), this.keys(), this.overview, this.chooser(steps), this.detail);
    this.drawOverview(steps);
    this.drawDetail(trace, steps[this.step]);
  }

  keys() {
    const opened = this.runs[this.run].trace.steps.some((step) => step.times.forward !== null);
    const kinds = opened ? kKinds : [["before", "forward, data, optimizer (before backward; not recorded apart)"], ...kKinds.slice(2)];
    return make("div", {class: "keys"}, ...kinds.map(([kind, text]) => make("span", {}, make("i", {style: {background: `var(--${kind === "bucket" ? "hidden" : kind})`}}), text)),
      make("span", {}, "│ a gradient is ready"));
  }

  comparison() {
    const several = this.runs.some(({trace}) => trace.hidden.length > 1);
    const shares = (trace, kind) => trace.hidden.map((each) => `${trace.hidden.length > 1 ? `${each.process}: ` : ""}${(100 * each[kind]).toFixed(0)} %`).join(", ") || "–";
    const row = ({name, trace}) => {
      const times = trace.steps.map((step) => step.times), middle = (field) => microsecondsText(median(times.map(field).filter((time) => time !== null)));
      return make("tr", {}, make("td", {}, name), make("td", {}, numberText(trace.steps.length)), make("td", {}, middle((each) => each.forward)), make("td", {}, middle((each) => each.whole)), make("td", {}, middle((each) => each.backward)),
        make("td", {}, middle((each) => Math.max(...each.waits))), make("td", {}, middle((each) => each.exposed)), make("td", {}, middle((each) => each.release)), make("td", {}, shares(trace, "own")), several ? make("td", {}, shares(trace, "all")) : null,
        make("td", {}, numberText(median(trace.steps.map((step) => step.buckets.filter(([process]) => process === 0).length)))));
    };
    const heads = ["medians of recorded steps", "steps", "forward", "backward's begin to the end", "all backwards", "first waits for last", "exposed", "release",
      ...(several ? ["hidden behind own process's backwards", "hidden behind all processes' backwards"] : ["reductions hidden"]), "buckets of a process"];
    const meaning = "Hidden is the share of the buckets' time in all recorded steps that passed before the last backward had ended" +
      (several ? ": of the process's own devices, as sync/hidden and reduction_hidden among a run's figures say, or of all processes. Waiting for another process's gradients is hidden in the latter only." : ", as sync/hidden and reduction_hidden among a run's figures say.");
    return make("div", {}, make("div", {class: "scroll"}, make("table", {id: "steps-table"}, make("tr", {}, ...heads.map((text) => make("th", {}, text))), ...this.runs.map(row))), make("p", {class: "faint"}, meaning));
  }

  chooser(steps) {
    const go = (step) => { this.step = Math.min(steps.length - 1, Math.max(0, step)); this.window = null; this.redraw(); };
    const slider = make("input", {type: "range", min: 0, max: steps.length - 1, value: this.step, "aria-label": "Recorded step",
      onchange: (event) => go(Number(event.target.value)), oninput: (event) => { this.shown.textContent = stepText(steps, Number(event.target.value)); }});
    this.shown = make("output", {}, stepText(steps, this.step));
    const button = (text, step, label) => make("button", {type: "button", "aria-label": label, onclick: () => go(step())}, text);
    const slowest = () => steps.reduce((best, step, k) => (step.times.whole > steps[best].times.whole ? k : best), 0);
    return make("div", {class: "steps"}, button("‹", () => this.step - 1, "The step before"), slider, button("›", () => this.step + 1, "The next step"), this.shown,
      button("typical", () => typicalStep(steps)), button("slowest", slowest), make("button", {type: "button", onclick: () => { this.window = null; this.redraw(); }}, "Show whole step"));
  }

  // A bar for each step: until the last backward's end, exposed, release, and above them forward and what was before.
  drawOverview(steps) {
    const width = Math.max(300, this.element.clientWidth - 34), height = 84, each = (width - kLeft - kRight) / steps.length;
    const heights = steps.map(({times}) => Math.min(times.before, 2 * times.whole) + times.forward + times.whole), top = Math.max(...heights), highest = Math.min(top, 4 * median(heights)), scale = (height - 6) / (highest || 1);
    const bars = steps.map((step, k) => {
      const {times} = step, x = kLeft + k * each, wide = Math.max(0.5, each - (each > 4 ? 1.5 : 0));
      let sum = 0;
      const part = (kind, size) => {
        const from = Math.min(highest, sum), to = Math.min(highest, sum += size);
        return draw("rect", {class: kind, x, y: height - to * scale, width: wide, height: (to - from) * scale});
      };
      return draw("g", {onclick: () => { this.step = k; this.window = null; this.redraw(); }},
        k === this.step ? draw("rect", {class: "chosen", x: x - 1, y: 0, width: wide + 2, height}) : null, part("backward", times.backward), part("exposed", times.exposed), part("release", times.release),
        part("forward", times.forward ?? 0), part("before", Math.min(times.before, 2 * times.whole)), draw("title", {}, stepText(steps, k)));
    });
    this.overview.replaceChildren(draw("svg", {class: "lanes overview", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "All recorded steps; the buttons below choose one"},
      draw("text", {x: 0, y: 14}, "all recorded steps"), draw("text", {x: 0, y: 30}, `${highest < top ? "cut at" : "highest:"} ${microsecondsText(highest)}`), draw("g", {class: "spans"}, ...bars)));
  }

  whole(step) {
    const previous = step.devices.map((row) => row[4]).filter((at) => at !== null), size = step.times.end - step.begin, {opened} = step.times;
    return [previous.length ? Math.max(Math.min(...previous, opened), opened - 0.5 * size) : opened, Math.max(step.times.end, step.end) + 0.01 * size];
  }

  drawDetail(trace, step) {
    const width = Math.max(300, this.element.clientWidth - 34), [low, high] = this.window ?? this.whole(step);
    const at = (time) => kLeft + (Math.min(Math.max(time, low), high) - low) / (high - low) * (width - kLeft - kRight);
    this.told = make("div", {class: "told", role: "status"}, "Point at a span or a bucket to read its times; times are since the first backward began.");
    const tell = (text) => () => { this.told.textContent = text; };
    const since = (time) => microsecondsText(time - step.begin);
    const bar = (kind, from, to, y, height, text) => to < low || from > high || to <= from ? null :
      draw("rect", {class: kind, x: at(from), y, width: Math.max(1, at(to) - at(from)), height, rx: 1.5, onpointerenter: tell(text)}, draw("title", {}, text));
    const parts = [];
    let y = 4;
    const buckets = step.buckets.map((bucket, place) => ({bucket, place, ready: bucketReady(trace, step, bucket)}));
    step.processNames.forEach((process, number) => {
      for (const [device, begin, end, joined, previous, opened] of step.devices.filter(([each]) => trace.devices[each].process === process)) {
        const name = this.names[device], done = joined ?? end, {last, reducedAt} = step.times;
        parts.push(draw("text", {class: "lane", x: 0, y: y + 15}, name),
          previous === null ? null : bar("before", previous, opened ?? begin, y, kLane - 6, `${name}: ${opened === null ? "forward, " : ""}data and optimizer, ${microsecondsText((opened ?? begin) - previous)} before its ${opened === null ? "backward" : "step was opened"}`),
          opened === null ? null : bar("forward", opened, begin, y, kLane - 6, `${name}: forward from ${since(opened)} to ${since(begin)}, ${microsecondsText(begin - opened)}`),
          bar("backward", begin, end, y, kLane - 6, `${name}: backward from ${since(begin)} to ${since(end)}, ${microsecondsText(end - begin)}`),
          bar("wait", end, Math.min(done, last), y, kLane - 6, `${name}: waits for the slowest device from ${since(end)}, ${microsecondsText(Math.min(done, last) - end)}`),
          bar("exposed", last, Math.min(done, reducedAt), y, kLane - 6, `${name}: exposed from ${since(last)}, ${microsecondsText(Math.min(done, reducedAt) - last)}`),
          bar("release", reducedAt, done, y, kLane - 6, `${name}: waits for its release from ${since(reducedAt)} to ${since(done)}, ${microsecondsText(done - reducedAt)}`),
          ...step.ready.filter(([on, time]) => on === device && time >= low && time <= high).map(([, time, each]) => draw("line", {class: "ready", x1: at(time), x2: at(time), y1: y, y2: y + kLane - 6, onpointerenter: tell(`${trace.names[each]}: ready on ${name} at ${since(time)}`)})));
        y += kLane;
      }
      const free = [], own = buckets.filter(({bucket}) => bucket[0] === number), top = y;
      for (const each of own) {
        const [, launched, finished] = each.bucket, first = Math.min(launched, ...each.ready.map(([, time]) => time));
        let lane = free.findIndex((until) => until <= first);
        if (lane < 0) lane = free.length;
        free[lane] = finished + 0.004 * (high - low);
        const middle = top + lane * kBucketLane + (kBucketLane - 4) / 2, text = this.bucketText(trace, step, each), from = Math.max(launched, step.times.last);
        if (at(launched) > at(first)) parts.push(draw("line", {class: "queued", x1: at(first), x2: at(launched), y1: middle, y2: middle}));
        parts.push(bar("bucket", launched, Math.min(finished, Math.max(launched, step.times.last)), top + lane * kBucketLane, kBucketLane - 4, text),
          finished > step.times.last ? bar("late", from, finished, top + lane * kBucketLane, kBucketLane - 4, text) : null);
      }
      if (own.length) parts.push(draw("text", {class: "lane", x: 0, y: top + 10}, step.processNames.length > 1 && process ? `buckets, ${process}` : "buckets"));
      y = top + Math.max(1, free.length) * kBucketLane + 8;
    });
    const ticks = niceTicks(low - step.begin, high - step.begin, Math.max(2, Math.floor((width - kLeft) / 110)));
    const lines = ticks.flatMap((tick) => [draw("line", {class: "tick", x1: at(tick + step.begin), x2: at(tick + step.begin), y1: 0, y2: y}), draw("text", {x: at(tick + step.begin), y: y + 15, "text-anchor": "middle"}, microsecondsText(tick))]);
    const svg = draw("svg", {class: "lanes detail", viewBox: `0 0 ${width} ${y + kAxis}`, height: y + kAxis, tabindex: 0, role: "img", "aria-label": `${stepText(trace.steps, this.step)}; the table below has the buckets' times`}, ...lines, draw("g", {class: "spans"}, ...parts.filter(Boolean)));
    this.addZoom(svg, trace, step, width, [low, high]);
    this.detail.replaceChildren(make("div", {class: "scroll"}, svg), this.told, this.bucketTable(trace, step, buckets));
  }

  bucketText(trace, step, {bucket: [, launched, finished, members], place, ready}) {
    const since = (time) => microsecondsText(time - step.begin), exposed = Math.max(0, finished - Math.max(launched, step.times.last));
    return `bucket ${place + 1}: ${members.map((name) => trace.names[name]).join(", ")}; ready ${ready.map(([device, time]) => `${since(time)} on ${this.names[device]}`).join(", ")}; ` +
      `launched ${since(launched)}, finished ${since(finished)}: ${microsecondsText(finished - launched)}, ${microsecondsText(exposed)} of it exposed`;
  }

  bucketTable(trace, step, buckets) {
    const since = (time) => microsecondsText(time - step.begin), several = step.processNames.length > 1;
    const rows = buckets.map(({bucket: [process, launched, finished, members], place, ready}) => make("tr", {}, make("td", {}, `${place + 1}`), ...(several ? [make("td", {}, step.processNames[process] || String(process))] : []),
      make("td", {class: "words", title: members.map((name) => trace.names[name]).join(", ")}, members.length > 3 ? `${members.slice(0, 2).map((name) => trace.names[name]).join(", ")} and ${members.length - 2} more` : members.map((name) => trace.names[name]).join(", ")),
      make("td", {}, ready.map(([, time]) => since(time)).join(" · ")), make("td", {}, since(launched)), make("td", {}, since(finished)), make("td", {}, microsecondsText(finished - launched)),
      make("td", {}, microsecondsText(Math.max(0, finished - Math.max(launched, step.times.last))))));
    const heads = ["bucket", ...(several ? ["process"] : []), "parameters", "ready on each device", "launched", "finished", "took", "exposed"];
    return make("div", {class: "limited"}, make("table", {id: "buckets"}, make("tr", {}, ...heads.map((text) => make("th", {class: text === "parameters" ? "words" : false}, text))), ...rows));
  }

  addZoom(svg, trace, step, width, [low, high]) {
    const timeOf = (event) => { const box = svg.getBoundingClientRect(); return low + Math.min(1, Math.max(0, ((event.clientX - box.left) * width / box.width - kLeft) / (width - kLeft - kRight))) * (high - low); };
    const choose = (window) => { this.window = window; this.drawDetail(trace, step); this.detail.querySelector("svg").focus({preventScroll: true}); };
    const around = (middle, factor) => choose([middle - factor * (middle - low), middle + factor * (high - middle)]);
    let from = null;
    svg.addEventListener("pointerdown", (event) => { from = timeOf(event); });
    svg.addEventListener("pointerup", (event) => {
      const to = timeOf(event);
      if (from !== null && Math.abs(to - from) > 0.01 * (high - low)) choose([Math.min(from, to), Math.max(from, to)]);
      from = null;
    });
    svg.addEventListener("dblclick", () => choose(null));
    svg.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); around(timeOf(event), event.deltaY > 0 ? 1.25 : 0.8); } }, {passive: false});
    svg.addEventListener("keydown", (event) => {
      const size = high - low, actions = {"+": () => around((low + high) / 2, 0.6), "-": () => around((low + high) / 2, 1 / 0.6), "0": () => choose(null), ArrowLeft: () => choose([low - size / 4, high - size / 4]), ArrowRight: () => choose([low + size / 4, high + size / 4])};
      if (actions[event.key] && !event.ctrlKey) { event.preventDefault(); actions[event.key](); }
    });
  }
}

// The step whose length is the median; of those that have one before them, if any has.
function typicalStep(steps) {
  const order = steps.map((_, k) => k).slice(steps.length > 1 ? 1 : 0).sort((a, b) => steps[a].times.whole - steps[b].times.whole);
  return order[order.length >> 1];
}

function stepText(steps, place) {
  const step = steps[place];
  return `generation ${step.generation} (${place + 1} of ${steps.length}): ${microsecondsText(step.times.whole)}, exposed ${microsecondsText(step.times.exposed)}`;
}

function recordedText(trace) {
  const kept = trace.steps.length, parts = [`trace.json has the last ${plural(trace.recorded, "step")} that the group recorded` + (trace.recorded > kept ? `, the last ${kept} are here.` : ".")];
  if (trace.lost) parts.push(`It is not whole: ${plural(trace.lost, "line")} could not be read.`);
  return parts.join(" ");
}

function niceTicks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough)), unit = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough), ticks = [];
  for (let tick = Math.ceil(low / unit) * unit; tick <= high; tick += unit) ticks.push(Math.abs(tick) < unit / 1e6 ? 0 : tick);
  return ticks;
}
