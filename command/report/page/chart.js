// SPDX-License-Identifier: Apache-2.0
// One chart: series of one thing over one axis, drawn by dygraphs with the values of the window that is shown, and a table
// of figures that is readable without hovering.

const kSmoothing = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 5000];
const kDashes = [null, [7, 4], [2, 3], [10, 3, 2, 3]];
const kDashNames = ["", "dashed", "dotted", "dashed"];

class Chart {
  // `report` has arrays, runs and settings; it is told of windows that a user chooses.
  constructor(report, spec) {
    this.report = report;
    this.log = null;  // null: as the page says
    this.window = null;  // [low, high], null: all
    this.values = null;  // the same of the values that are shown
    this.pointed = null;  // where on the axis the pointer is
    this.held = false;  // a button is: what is drawn anew waits for its end
    this.members = [];  // series that are drawn
    this.pending = Promise.resolve();
    this.title = make("h3");
    this.notes = make("div", {class: "faint"});
    this.unit = unitOf(spec.members.length ? report.data.runs[spec.members[0].run].series[spec.members[0].series].name : "");
    this.logButton = make("button", {type: "button", "aria-pressed": "false", onclick: () => this.toggleLog()}, "log");
    this.plot = make("div", {class: "plot", tabindex: "0", role: "img", onkeydown: (event) => this.key(event)});
    this.plot.addEventListener("mousedown", (event) => { if (event.button === 0) this.hold(); });
    this.plot.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    this.axis = make("div", {class: "axis"});
    this.legend = make("table", {class: "legend"});
    this.element = make("article", {class: "chart"}, make("header", {}, this.title, make("span", {class: "faint"}), this.logButton),
      this.plot, this.axis, make("div", {class: "scroll"}, this.legend), this.notes);
    this.use(spec);
  }

  use(spec) {
    this.spec = spec;
    const runs = this.report.data.runs;
    this.next = spec.members.map(({run, series, kind}) => ({run, kind, described: runs[run].series[series]}));
    const names = [...new Set(this.next.map((member) => member.described.label))];
    for (const member of this.next) {
      const place = names.indexOf(member.described.label);
      member.colour = `--c${(runs.length > 1 ? member.run : place) % kColours}`;
      member.dash = runs.length > 1 ? place % kDashes.length : member.kind === "validation" ? 1 : 0;
      member.label = runs.length > 1 ? `${member.described.label} · ${runs[member.run].name}` : member.described.label;
    }
    this.title.textContent = spec.title;
    this.axis.textContent = spec.axis;
    this.schedule();
  }

  isLog() { return this.log ?? this.report.settings.log; }

  toggleLog() { this.useLog(!this.isLog()); this.schedule(); }

  useLog(log) { this.log = log; this.values = null; }

  hold() {
    this.held = true;
    addEventListener("mouseup", () => setTimeout(() => {
      this.held = false;
      if (this.waiting) this.schedule();
    }), {once: true});
  }

  // Draws anew as soon as what is being drawn is.
  schedule() { this.pending = this.pending.then(() => this.redraw()).catch((error) => this.report.fail(error)); return this.pending; }

  async load(members) {
    for (const member of members) {
      const {described} = member, arrays = this.report.arrays;
      if (member.arrays !== arrays) {
        [member.x, member.y] = await Promise.all([arrays.get(described.x), arrays.get(described.y)]);
        if (described.dropped) member.dropped = await Promise.all([arrays.get(described.dropped.x), arrays.get(described.dropped.y)]);
        member.arrays = arrays;
        member.smoothed = null;
      }
      if (member.smoothed?.size !== this.report.settings.smoothing)
        member.smoothed = {size: this.report.settings.smoothing, y: this.report.settings.smoothing > 1 ? runningMean(member.y, this.report.settings.smoothing) : null};
    }
  }

  shownMembers() { return this.members.filter((member) => this.report.isShown(member.run)); }

  // Lines of dygraphs: values that a resumed run wrote anew, values, their means.
  makeLines() {
    const lines = [];
    for (const member of this.shownMembers()) {
      const tone = colour(member.colour), points = member.x.length <= 80;
      const {smoothed} = member, pattern = kDashes[member.dash];
      if (member.dropped) lines.push({member, x: member.dropped[0], y: member.dropped[1], colour: faded(tone, 0.45), width: 0, points: true, aside: true});
      lines.push({member, x: member.x, y: member.y, colour: smoothed.y ? faded(tone, 0.3) : tone, width: smoothed.y ? 1 : 1.6, pattern, points: points && !smoothed.y, main: true});
      if (smoothed.y) lines.push({member, x: member.x, y: smoothed.y, colour: tone, width: 2, pattern, means: true});
    }
    return lines;
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const member of this.members) if (member.x.length) { low = Math.min(low, member.x[0]); high = Math.max(high, member.x[member.x.length - 1]); }
    if (low > high) return [0, 1];
    return low === high ? [low - 1, high + 1] : [low, high];
  }

  // What is shown: a window, or all with a little room at the sides.
  view() {
    if (this.window) return this.window;
    const [low, high] = this.range(), room = 0.012 * (high - low);
    return [low - room, high + room];
  }

  // The same for dygraphs, with the values.
  ranges() { return {dateWindow: this.view(), valueRange: this.values, yRangePad: this.values ? 0 : 8}; }

  rows() {
    const [low, high] = this.view(), columns = Math.max(100, Math.round(this.plot.clientWidth * Math.min(2, devicePixelRatio || 1)));
    for (const line of this.lines) line.places = placesToDraw(line.x, line.y, low, high, columns);
    const log = this.isLog();
    return joinedRows(this.lines, (value) => Number.isFinite(value) && (!log || value > 0));
  }

  async redraw() {
    const members = this.next;
    await this.load(members);
    this.waiting = this.held;
    if (this.held) return;
    this.members = members;
    this.lines = this.makeLines();
    this.logButton.setAttribute("aria-pressed", String(this.isLog()));
    this.makeLegend();
    this.makeNotes();
    if (this.graph) this.graph.destroy();
    this.graph = null;
    this.plot.replaceChildren();
    if (this.lines.length === 0) return;
    const rows = this.rows();
    if (rows.length === 0) return;
    this.drawing = true;
    this.graph = new Dygraph(this.plot, rows, this.options());
    this.drawing = false;
    this.plot.dataset.points = rows.length;
    this.pointAt(this.pointed);
    this.report.drawn(this);
  }

  options() {
    const series = {}, labels = this.lines.map((_, k) => `s${k}`);
    this.lines.forEach((line, k) => {
      series[labels[k]] = {strokeWidth: line.width, strokePattern: line.pattern, drawPoints: line.points, pointSize: line.aside ? 1.6 : 2.2};
    });
    const format = (value) => valueText(value, this.unit);
    return {
      labels: [this.spec.axis, ...labels], series, colors: this.lines.map((line) => line.colour), connectSeparatedPoints: true,
      legend: "never", logscale: this.isLog(), ...this.ranges(), animatedZooms: false, highlightCircleSize: 3.5, rightGap: 12,
      axisLineColor: colour("--line"), gridLineColor: colour("--grid"), includeZero: false,
      axes: {x: {axisLabelFormatter: (value) => numberText(value), drawGrid: false}, y: {axisLabelFormatter: format, axisLabelWidth: 68, labelsKMG2: this.unit === "bytes"}},
      underlayCallback: (context, area, graph) => this.underlay(context, area, graph),
      highlightCallback: (event, x) => this.pointAt(x), unhighlightCallback: () => this.pointAt(null),
      zoomCallback: (low, high, values) => this.zoomed(low, high, values[0]), drawCallback: (graph) => this.panned(graph),
      interactionModel: {...Dygraph.defaultInteractionModel, dblclick: () => this.showAll()},
    };
  }

  // A user's zoom along the axis, or of the values alone, which stays with this chart.
  zoomed(low, high, values) {
    const [first, last] = this.range(), [left, right] = this.view();
    if (low === left && high === right) { this.values = values; return; }
    this.choose(low <= first && high >= last ? null : [low, high]);
  }

  panned(graph) {
    if (this.drawing || !this.graph) return;
    const [low, high] = graph.xAxisRange(), [first, last] = this.view();
    if (this.values) this.values = graph.yAxisRange();
    if (Math.abs(low - first) + Math.abs(high - last) > 1e-9 * Math.abs(last - first)) this.choose([low, high]);
  }

  choose(window) {
    this.setWindow(window);
    this.report.windowChosen(this, window);
  }

  // Shows that part of the axis, with values in its pixels' resolution.
  setWindow(window) {
    this.window = window;
    if (!this.graph) return;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (!this.graph) return;
      const rows = this.rows();
      this.drawing = true;
      this.graph.updateOptions({file: rows, ...this.ranges()});
      this.drawing = false;
      this.plot.dataset.points = rows.length;
      this.plot.dataset.window = this.window ? this.window.join(" ") : "";
    });
  }

  showAll() {
    this.values = null;
    this.choose(null);
  }

  zoomBy(factor, share) {
    const [low, high] = this.window ?? this.range(), [first, last] = this.range(), middle = low + share * (high - low);
    const next = [Math.max(first, middle - factor * (middle - low)), Math.min(last, middle + factor * (high - middle))];
    this.choose(next[0] <= first && next[1] >= last ? null : next);
  }

  move(share) {
    if (!this.window) return;
    const [first, last] = this.range(), size = this.window[1] - this.window[0];
    const low = Math.min(Math.max(first, this.window[0] + share * size), last - size);
    this.choose([low, low + size]);
  }

  wheel(event) {
    if (!event.ctrlKey || !this.graph) return;
    event.preventDefault();
    const area = this.graph.getArea();
    this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (event.offsetX - area.x) / area.w)));
  }

  key(event) {
    const actions = {"+": () => this.zoomBy(0.6, 0.5), "=": () => this.zoomBy(0.6, 0.5), "-": () => this.zoomBy(1 / 0.6, 0.5),
      ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), "0": () => this.showAll()};
    if (event.ctrlKey || event.altKey || event.metaKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // Marks at the lower edge where values are not finite, lines where a resumed run went back to.
  underlay(context, area, graph) {
    context.lineJoin = "round";  // pointed corners would reach beyond the values
    context.save();
    const [low, high] = graph.xAxisRange();
    for (const member of this.shownMembers()) {
      context.fillStyle = context.strokeStyle = colour(member.colour);
      if (member.described.nan + member.described.inf + member.described.minus_inf > 0) {
        let drawn = -10;
        for (let i = lowerBound(member.x, low); i < member.x.length && member.x[i] <= high; ++i) {
          if (Number.isFinite(member.y[i])) continue;
          const at = graph.toDomXCoord(member.x[i]);
          if (at - drawn < 3) continue;
          drawn = at;
          const bottom = area.y + area.h;
          context.beginPath();
          context.moveTo(at, bottom - 9); context.lineTo(at - 4, bottom); context.lineTo(at + 4, bottom);
          context.fill();
        }
      }
      context.setLineDash([2, 4]);
      for (const back of member.described.returns) {
        if (back < low || back > high) continue;
        const at = Math.round(graph.toDomXCoord(back)) + 0.5;
        context.beginPath(); context.moveTo(at, area.y); context.lineTo(at, area.y + area.h); context.stroke();
      }
    }
    context.restore();
  }

  makeLegend() {
    const axis = this.spec.axis, rows = [], latest = (described) => described.last === null && described.count > 0 ? "not finite" : valueText(described.last, this.unit);
    this.cursors = [];
    const head = make("th", {class: "cursor"});
    for (const member of this.shownMembers()) {
      const {described} = member, cursor = make("td", {class: "cursor"});
      this.cursors.push({member, cursor});
      const swatch = make("span", {class: `swatch ${kDashNames[member.dash]}`, style: {borderTopColor: `var(${member.colour})`}});
      const extreme = (name) => described[name] === null ? "–" : make("span", {title: `at ${axis} ${numberText(described[`${name}_x`])}`}, valueText(described[name], this.unit));
      rows.push(make("tr", {}, make("td", {}, swatch, member.label), cursor, make("td", {}, latest(described)), make("td", {}, extreme("min")), make("td", {}, extreme("max"))));
    }
    this.cursorHead = head;
    this.legend.replaceChildren(make("tr", {}, make("th", {}), head, make("th", {}, "last"), make("th", {}, "smallest"), make("th", {}, "largest")), ...rows);
    this.plot.setAttribute("aria-label", `${this.spec.title} over ${axis}: ` + this.shownMembers().map(({label, described}) =>
      `${label}, last ${latest(described)}, from ${numberText(described.min)} to ${numberText(described.max)}`).join("; "));
  }

  pointAt(x) {
    this.pointed = x;
    this.cursorHead.textContent = x === null ? "" : `at ${this.spec.axis} ${numberText(x)}`;
    const [low, high] = this.view(), half = (high - low) / Math.max(1, this.plot.clientWidth - 90) / 2;
    for (const {member, cursor} of this.cursors) {
      const near = x === null ? null : valuesNear(member.x, member.y, x, half);
      if (!near) { cursor.textContent = ""; continue; }
      const text = (value) => valueText(value, this.unit);
      cursor.textContent = near.count > 1 ? `${text(near.smallest)} … ${text(near.largest)} (${near.count})` : text(near.smallest) + (near.before === undefined ? "" : ` (${numberText(near.before)})`);
    }
  }

  makeNotes() {
    const lines = [];
    for (const {label, described, y} of this.shownMembers()) {
      const strange = [[described.nulls, "null (NaN or infinite)"], [described.nan - described.nulls, "NaN"], [described.inf, "∞"], [described.minus_inf, "−∞"]]
        .filter(([count]) => count > 0).map(([count, name]) => `${numberText(count)} ${name}`);
      if (strange.length) lines.push(`${label}: ${strange.join(", ")}, of ${plural(described.count, "value")}`);
      if (described.return_count) lines.push(`${label}: went back ${plural(described.return_count, "time")}, to ${described.returns.slice(0, 5).map(numberText).join(", ")}${described.return_count > 5 ? ", …" : ""}; points are what was written anew later`);
      if (described.bucket > 1) lines.push(`${label}: ${plural(described.count, "value")}, of which each ${numberText(described.bucket)} are shown by their first, smallest, largest and last${this.report.settings.smoothing > 1 ? ", and smoothed by the mean of these" : ""}`);
      if (this.isLog()) {
        const none = y.reduce((count, value) => count + (Number.isFinite(value) && value <= 0 ? 1 : 0), 0);
        if (none) lines.push(`${label}: ${plural(none, "value")} of 0 or less have no place on a log scale`);
      }
    }
    this.notes.replaceChildren(...lines.map((line) => make("div", {}, line)));
  }
}

function faded(tone, share) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(tone.slice(at, at + 2), 16));
  return `rgba(${red},${green},${blue},${share})`;
}
