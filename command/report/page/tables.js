// SPDX-License-Identifier: Apache-2.0
// What is told in words and tables: how runs began and ended, figures beside each other, parameters, options, files.

const kLevels = new Set(["warning", "error"]);

function isObject(value) { return value !== null && typeof value === "object" && !Array.isArray(value); }

function plainText(value) {
  if (typeof value === "string") return value;
  if (typeof value === "number") return numberText(value);
  return value === null || value === undefined ? "–" : Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.join(" ") : JSON.stringify(value);
}

function messagesOf(run) {
  const messages = Array.isArray(run.record?.messages) ? run.record.messages.filter((each) => isObject(each) && typeof each.text === "string") : [];
  return run.record?.outcome === "failed" && typeof run.record.reason === "string" ? [...messages, {level: "error", text: run.record.reason}] : messages;
}

// What could not be read of a run's files.
function troublesOf(run) {
  const told = run.troubles.map((text) => ({level: "warning", text}));
  for (const file of run.files) {
    if (file.broken) {
      const named = file.troubles.slice(0, 5).map(([line, reason]) => `line ${line} is ${reason}`).join("; ");
      told.push({level: "warning", text: `${file.name}: ${plural(file.broken, "line")} of ${numberText(file.lines)} could not be read: ${named}${file.broken > 5 ? "; …" : ""}`});
    }
    if (file.unfinished) told.push({level: "info", text: `${file.name}: its last line is half written, and left out`});
    if (file.names_left_out) told.push({level: "warning", text: `${file.name}: ${plural(file.names_left_out, "name")} too many are left out`});
    for (const [name, count] of file.left_out) told.push({level: "info", text: `${file.name}: ${plural(count, "value")} of '${name}' are lists or objects, and left out`});
  }
  return told;
}

function note({level, text, seconds}) {
  const when = typeof seconds === "number" ? ` (after ${durationText(seconds)})` : "";
  return make("div", {class: `note ${kLevels.has(level) ? level : ""}`}, `${kLevels.has(level) ? `${level}: ` : ""}${text}${when}`);
}

function statusOf(run) {
  const outcome = run.record?.outcome;
  if (typeof outcome === "string") return outcome;
  return run.record ? "no end recorded" : "end not recorded";
}

function showRuns(parent, data) {
  parent.replaceChildren(...data.runs.map((run, k) => {
    const record = run.record ?? {}, status = statusOf(run), rows = [];
    const add = (name, value) => rows.push(make("dt", {}, name), make("dd", {}, value));
    add("path", run.path);
    if (record.program) add("program", `${plainText(record.program)}${record.tutti ? `, tutti ${plainText(record.tutti)}` : ""}`);
    add("started", record.started ? plainText(record.started).replace("T", " ").replace("Z", " UTC") : "not recorded");
    const lasted = typeof record.seconds === "number" ? record.seconds : (Date.parse(record.ended) - Date.parse(record.started)) / 1000;
    add("took", Number.isFinite(lasted) ? durationText(lasted) : status === "no end recorded" ? "it runs, or was killed" : "not recorded");
    if (isObject(record.environment) && record.environment.devices) add("devices", plainText(record.environment.devices));
    add("values", `${numberText(run.series.reduce((sum, each) => sum + each.count, 0))} in ${plural(run.series.length, "series", "series")}`);
    const notes = [...messagesOf(run), ...troublesOf(run)].filter((each) => kLevels.has(each.level));
    const swatch = data.runs.length > 1 ? make("span", {class: "swatch", style: {borderTopColor: `var(--c${k % kColours})`}}) : null;
    return make("div", {class: "card"}, make("span", {class: `status ${["finished", "failed", "interrupted"].includes(status) ? status : ""}`}, status), make("div", {class: "name"}, swatch, run.name), make("dl", {}, ...rows),
      ...notes.slice(0, 3).map(note), notes.length > 3 ? make("div", {class: "faint"}, `and ${notes.length - 3} more below`) : null);
  }));
}

// The last, smallest and largest value of every series, a column for each run.
function showFigures(parent, data) {
  const ends = [...new Set(data.runs.flatMap((run) => run.figures.map(([name]) => name)))], names = [...new Set(data.runs.flatMap((run) => run.series.map((series) => series.longLabel)))];
  if (ends.length + names.length === 0) return parent.replaceChildren();
  const end = (run, name) => {
    const figure = run.figures.find((each) => each[0] === name);
    const text = !figure ? "–" : typeof figure[1] === "string" ? figure[1] : figure[1] === null ? "not finite" : valueText(figure[1], unitOf(name));
    return [make("td", {}, text), make("td", {}), make("td", {})];
  };
  const curve = (run, name) => {
    const series = run.series.find((each) => each.longLabel === name), unit = unitOf(series?.name ?? "");
    if (!series) return [make("td", {}, "–"), make("td", {}), make("td", {})];
    const extreme = (key) => make("td", {title: `at ${series.axis} ${numberText(series[`${key}_x`])}`}, valueText(series[key], unit));
    return [make("td", {}, series.last === null ? "not finite" : valueText(series.last, unit)), extreme("min"), extreme("max")];
  };
  const several = data.runs.length > 1;
  parent.replaceChildren(make("h2", {}, "Figures"), make("div", {class: "scroll"}, make("table", {id: "figures-table"},
    several ? make("tr", {}, make("th", {}), ...data.runs.map((run) => make("th", {colspan: 3}, run.name))) : null,
    make("tr", {}, make("th", {}, "name"), ...data.runs.flatMap(() => ["last", "smallest", "largest"].map((text) => make("th", {}, text)))),
    ...names.map((name) => make("tr", {}, make("td", {}, name), ...data.runs.flatMap((run) => curve(run, name)))),
    ...ends.map((name) => make("tr", {}, make("td", {}, `${name}, at the end`), ...data.runs.flatMap((run) => end(run, name)))))));
}

const kColumns = [["name", "parameter", plainText], ["shape", "shape", (value) => (Array.isArray(value) ? value.join(" × ") || "scalar" : "–")], ["size", "elements", numberText], ["dtype", "type", plainText],
  ["order", "ready as no.", numberText], ["ready", "ready after", microsecondsText], ["reduction", "reduction", microsecondsText], ["together", "in a bucket of", numberText],
  ["gradient_norm", "gradient norm", numberText]];
const kMostRows = 1000;

// The parameters of a run, sorted by any column.
class ParameterTable {
  constructor(element) { this.element = element; this.run = 0; this.by = null; this.down = false; this.words = ""; }

  use(data) { this.data = data; this.redraw(); }

  redraw() {
    const runs = this.data.runs.filter((run) => run.parameters.length > 0), title = make("h2", {}, "Parameters");
    if (runs.length === 0) return this.element.replaceChildren(title, make("p", {class: "faint"}, "Parameters are not recorded: neither trace.json nor run.json names any."));
    this.run = Math.min(this.run, runs.length - 1);
    const all = runs[this.run].parameters, missing = kColumns.filter(([key]) => all.every((row) => row[key] === undefined || row[key] === null)).map(([, text]) => text);
    const columns = kColumns.filter(([, text]) => !missing.includes(text));
    const total = all.reduce((sum, row) => sum + (typeof row.size === "number" ? row.size : 0), 0);
    const table = make("table", {id: "parameter-table"});
    const search = make("input", {type: "search", placeholder: "part of a name", "aria-label": "Parameters with these letters", value: this.words, oninput: (event) => { this.words = event.target.value; this.fillTable(table, columns, all); }});
    this.element.replaceChildren(title, ...[tabs(runs.map((run) => run.name), this.run, (place) => { this.run = place; this.redraw(); })].filter(Boolean),
      make("div", {class: "steps"}, make("span", {}, `${plural(all.length, "parameter")}${total ? `, ${plural(total, "element")}` : ""}`), search),
      make("div", {class: "limited scroll"}, table), make("p", {class: "faint"}, [missing.length ? `Not recorded: ${missing.join(", ")}. ` : "",
        "Times and order are medians over the recorded steps; a reduction is that of the parameter's whole bucket, from its launch to its end. ", missing.includes("gradient norm") ? "" : "Gradient norms are of the last step."].join("")));
    this.fillTable(table, columns, all);
  }

  fillTable(table, columns, all) {
    const rows = all.filter((row) => row.name.includes(this.words)), direction = this.down ? -1 : 1;
    if (this.by) rows.sort((a, b) => direction * compare(a[this.by], b[this.by]));
    const sortBy = (key) => { this.down = this.by === key ? !this.down : key !== "name" && key !== "order"; this.by = key; this.fillTable(table, columns, all); };
    const head = ([key, text]) => make("th", {"aria-sort": this.by === key ? (this.down ? "descending" : "ascending") : null}, make("button", {type: "button", onclick: () => sortBy(key)}, text + (this.by === key ? (this.down ? " ▾" : " ▴") : "")));
    table.replaceChildren(make("tr", {}, ...columns.map(head)), ...rows.slice(0, kMostRows).map((row) => make("tr", {}, ...columns.map(([key, , format]) => make("td", {}, row[key] === undefined ? "–" : typeof row[key] === "object" || key === "name" || key === "dtype" || typeof row[key] === "number" ? format(row[key]) : plainText(row[key]))))),
      rows.length > kMostRows ? make("tr", {}, make("td", {}, `and ${rows.length - kMostRows} more`)) : "");
  }
}

function compare(a, b) {
  if (a === undefined || a === null || b === undefined || b === null) return (a === undefined || a === null) - (b === undefined || b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

// Options and environment, of several runs beside each other, with what differs marked.
function recordTable(data, key, title) {
  const names = [...new Set(data.runs.flatMap((run) => (isObject(run.record?.[key]) ? Object.keys(run.record[key]) : [])))];
  if (names.length === 0) return [make("h2", {}, title), make("p", {class: "faint"}, "Not recorded.")];
  const rows = names.map((name) => {
    const values = data.runs.map((run) => (isObject(run.record?.[key]) ? (Object.hasOwn(run.record[key], name) ? plainText(run.record[key][name]) : "–") : null)), differ = new Set(values.filter((value) => value !== null)).size > 1;
    return make("tr", {}, make("td", {}, name), ...values.map((value) => make("td", {class: differ && value !== null ? "best" : false}, value ?? "not recorded")));
  });
  const head = data.runs.length > 1 ? make("tr", {}, make("th", {}), ...data.runs.map((run) => make("th", {style: {textAlign: "left"}}, run.name))) : null;
  return [make("h2", {}, title), make("div", {class: "scroll"}, make("table", {class: "plain"}, head, ...rows))];
}

function showRecords(parent, data) {
  const notes = data.runs.flatMap((run) => {
    const messages = messagesOf(run);
    const none = run.record ? "no warnings and no errors" : "warnings and errors are not recorded: there is no run.json";
    return [data.runs.length > 1 ? make("h3", {}, run.name) : null, ...(messages.length ? messages.map(note) : [make("p", {class: "faint"}, none)])].filter(Boolean);
  });
  const commands = data.runs.filter((run) => Array.isArray(run.record?.arguments)).map((run) => make("pre", {}, run.record.arguments.map(plainText).join(" ")));
  parent.replaceChildren(make("h2", {}, "Warnings and errors"), ...notes, ...recordTable(data, "options", "Options"), ...commands, ...recordTable(data, "environment", "Environment"));
}

function showFiles(parent, data) {
  const rows = data.runs.flatMap((run) => run.files.map((file) => make("tr", {}, make("td", {}, data.runs.length > 1 ? `${run.name}: ${file.name}` : file.name), make("td", {}, plural(file.lines, "line")), make("td", {}, file.broken ? `${numberText(file.broken)} not readable` : "all readable"))));
  const notes = data.runs.flatMap((run) => troublesOf(run).map((each) => note({...each, text: data.runs.length > 1 ? `${run.name}: ${each.text}` : each.text})));
  const cut = data.runs.some((run) => run.series.some((series) => series.bucket > 1));
  const exact = cut ? `${numberText(data.values)} values are more than the ${numberText(data.most_values)} that a page holds: long series are in buckets, of which the first, smallest, largest and last value are here.` : `All ${numberText(data.values)} values are in this page, as they were written.`;
  parent.replaceChildren(make("h2", {}, "Files"), make("p", {}, exact), make("div", {class: "scroll"}, make("table", {}, ...rows)), ...notes);
}
