// SPDX-License-Identifier: Apache-2.0
// The page: reads its data, makes its parts, keeps what a user chose, and asks for newer data where it is served live.

class Report {
  constructor(data) {
    this.settings = {smoothing: 1, log: false, linked: true};
    this.hidden = new Set();
    this.charts = new Map();
    this.firstDraw = null;
    this.timeline = new Timeline(document.getElementById("timeline"));
    this.parameters = new ParameterTable(document.getElementById("parameters"));
    this.watch = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.show(entry.target);
    }, {rootMargin: "600px"});
    this.addControls();
    this.use(data);
  }

  use(data) {
    this.data = data;
    labelSeries(data.runs);
    this.arrays = new Arrays(data.arrays);
    document.getElementById("made").textContent = `${data.live === null ? "" : "as of "}${data.made.replace("T", " ").replace("+00:00", " UTC")}`;
    showRuns(document.getElementById("runs"), data);
    showFigures(document.getElementById("figures"), data);
    showRecords(document.getElementById("records"), data);
    showFiles(document.getElementById("files"), data);
    this.makeShown();
    this.makeCharts();
    const recorded = JSON.stringify(data.runs.map(({name, trace, parameters}) => [name, trace, parameters]));
    if (recorded === this.recorded) return;  // what a user does there goes on
    this.recorded = recorded;
    this.timeline.use(data);
    this.parameters.use(data);
  }

  isShown(run) { return !this.hidden.has(run); }

  makeShown() {
    const {runs} = this.data, place = document.getElementById("shown");
    if (runs.length < 2) return place.replaceChildren();
    place.replaceChildren(...runs.map((run, k) => make("label", {}, make("input", {type: "checkbox", checked: this.isShown(k), onchange: (event) => {
      if (event.target.checked) this.hidden.delete(k); else this.hidden.add(k);
      this.redraw();
    }}), " ", make("span", {class: "swatch", style: {borderTopColor: `var(--c${k % kColours})`}}), run.name)));
  }

  makeCharts() {
    const parent = document.getElementById("charts"), keys = this.data.charts.map((spec) => `${spec.section}|${spec.title}|${spec.axis}`);
    if (keys.join("\n") === [...this.charts.keys()].join("\n")) {
      this.data.charts.forEach((spec, k) => this.refresh(this.charts.get(keys[k]), spec));
      return;
    }
    this.watch.disconnect();
    this.charts = new Map();
    parent.replaceChildren();
    let section = null, grid = null;
    this.data.charts.forEach((spec, k) => {
      if (spec.section !== section) {
        section = spec.section;
        grid = make("div", {class: "grid"});
        parent.append(make("h2", {}, section), grid);
      }
      const holder = make("div", {class: "chart holder", style: {minHeight: "360px"}, "data-key": keys[k]}, make("h3", {}, spec.title));
      this.charts.set(keys[k], {spec, chart: null, holder});
      grid.append(holder);
      this.watch.observe(holder);
    });
    if (keys.length === 0) parent.append(make("p", {class: "note"}, "No values yet."));
  }

  // Makes a chart when it comes into sight.
  show(holder) {
    this.watch.unobserve(holder);
    const entry = this.charts.get(holder.dataset.key);
    if (!entry || entry.chart) return;
    entry.chart = new Chart(this, entry.spec);
    entry.chart.window = this.settings.linked ? this.windows?.get(entry.spec.axis) ?? null : null;
    holder.replaceWith(entry.chart.element);
  }

  refresh(entry, spec) {
    entry.spec = spec;
    if (entry.chart) entry.chart.use(spec);
  }

  redraw() { for (const {chart} of this.charts.values()) if (chart) chart.schedule(); }

  drawn(chart) {
    document.documentElement.dataset.drawn = [...this.charts.values()].filter((entry) => entry.chart?.graph).length;
    this.firstDraw ??= performance.now();
    document.documentElement.dataset.firstDraw = Math.round(this.firstDraw);
  }

  windowChosen(from, window) {
    if (!this.settings.linked) return;
    (this.windows ??= new Map()).set(from.spec.axis, window);
    for (const {chart} of this.charts.values()) if (chart && chart !== from && chart.spec.axis === from.spec.axis) chart.setWindow(window);
  }

  addControls() {
    const find = (id) => document.getElementById(id);
    find("smoothing").addEventListener("input", (event) => {
      this.settings.smoothing = kSmoothing[Number(event.target.value)];
      find("smoothed").textContent = this.settings.smoothing > 1 ? `mean of ${numberText(this.settings.smoothing)}` : "off";
      this.redraw();
    });
    find("log").addEventListener("change", (event) => {
      this.settings.log = event.target.checked;
      for (const {chart} of this.charts.values()) if (chart) chart.useLog(null);
      this.redraw();
    });
    find("linked").addEventListener("change", (event) => { this.settings.linked = event.target.checked; });
    find("reset").addEventListener("click", () => {
      this.windows = new Map();
      for (const {chart} of this.charts.values()) if (chart) { chart.window = chart.values = null; chart.schedule(); }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; this.redraw(); this.timeline.redraw(); } });
  }

  fail(error) {
    document.getElementById("problems").replaceChildren(make("p", {class: "note error"}, `This page could not be drawn: ${error.message}`));
    console.error(error);
  }

  // Asks for newer data, again after a second, or longer where they take long to make.
  async follow() {
    const badge = document.getElementById("live");
    badge.hidden = false;
    for (;;) {
      const asked = performance.now();
      try {
        const answer = await fetch(`data?have=${this.data.live}`, {cache: "no-store"});
        if (answer.status === 200) this.use(JSON.parse(await answer.text()));
        else if (answer.status !== 204) throw new Error(await answer.text());
        badge.textContent = "live";
        badge.className = "";
      } catch (error) {
        badge.textContent = error instanceof TypeError ? "no longer served" : error.message;
        badge.className = "lost";
      }
      await new Promise((resume) => setTimeout(resume, Math.max(1000, 5 * (performance.now() - asked))));
    }
  }
}

const page = new Report(JSON.parse(document.getElementById("data").textContent));
if (page.data.live !== null) page.follow();
