// SPDX-License-Identifier: Apache-2.0
// Values of a page: unpacked when they are first needed, smoothed, and reduced to the extremes of each pixel.

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpack(array) {
  const stream = new Blob([bytesOf(array.data)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = array.count, bytes = new Uint8Array(8 * count);
  for (let plane = 0; plane < 8; ++plane)
    for (let i = 0, from = plane * count; i < count; ++i) bytes[8 * i + plane] = planes[from + i];
  const values = new Float64Array(bytes.buffer);
  if (array.differences) for (let i = 1; i < count; ++i) values[i] += values[i - 1];
  return values;
}

// The arrays of a page, each unpacked once.
class Arrays {
  constructor(packed) { this.packed = packed; this.unpacked = []; }
  get(place) { return this.unpacked[place] ??= unpack(this.packed[place]); }
}

// The mean of the last `size` finite values at each place; NaN where the value there is not finite.
function runningMean(y, size) {
  const means = new Float64Array(y.length), kept = new Float64Array(size);
  let sum = 0, count = 0, next = 0;
  for (let i = 0; i < y.length; ++i) {
    const value = y[i];
    if (!Number.isFinite(value)) { means[i] = NaN; continue; }
    if (count === size) sum -= kept[next]; else ++count;
    kept[next] = value;
    sum += value;
    if (++next === size) {  // sums anew, so that errors do not grow with the series
      next = 0;
      sum = 0;
      for (let k = 0; k < count; ++k) sum += kept[k];
    }
    means[i] = sum / count;
  }
  return means;
}

// Gives each series of a page `label`, its name with its file where a run has it in several, and `longLabel`, with its axis
// where it is over several.
function labelSeries(runs) {
  const axes = new Map(), clear = new Map();
  for (const run of runs) {
    const files = new Map();
    for (const {name, axis, file} of run.series) {
      axes.set(name, (axes.get(name) ?? new Set()).add(axis));
      const key = `${axis} ${name}`;
      clear.set(key, (clear.get(key) ?? true) && (files.get(key) ?? file) === file);
      files.set(key, file);
    }
  }
  for (const each of runs.flatMap((run) => run.series)) {
    each.label = clear.get(`${each.axis} ${each.name}`) ? each.name : `${each.name} · ${each.file}`;
    each.longLabel = axes.get(each.name).size > 1 ? `${each.label}, over ${each.axis}` : each.label;
  }
}

// The first place whose x is not less.
function lowerBound(x, value) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

// Adds to `places` those of the first, smallest, largest and last value, and of the first that is not finite, of each of
// the columns into which [low, high] is divided, among the places from `begin` to `end`.
function reduceInto(places, x, y, begin, end, low, high, columns) {
  if (end - begin <= 2 * columns) {
    for (let i = begin; i < end; ++i) places.push(i);
    return;
  }
  const scale = high > low ? columns / (high - low) : 0;
  let i = begin;
  while (i < end) {
    const column = Math.floor((x[i] - low) * scale), first = i;
    let smallest = -1, largest = -1, strange = -1;
    for (; i < end && Math.floor((x[i] - low) * scale) === column; ++i) {
      const value = y[i];
      if (!Number.isFinite(value)) { if (strange < 0) strange = i; continue; }
      if (smallest < 0 || value < y[smallest]) smallest = i;
      if (largest < 0 || value > y[largest]) largest = i;
    }
    const chosen = [first, smallest, largest, strange, i - 1].filter((place) => place >= 0).sort((a, b) => a - b);
    for (let k = 0; k < chosen.length; ++k) if (k === 0 || chosen[k] !== chosen[k - 1]) places.push(chosen[k]);
  }
}

// Places to draw: fine within the window, coarse outside, so that a chart can be moved before it is drawn anew.
function placesToDraw(x, y, low, high, columns) {
  const places = [];
  if (x.length === 0) return places;
  const begin = Math.max(0, lowerBound(x, low) - 1);
  let end = lowerBound(x, high);
  while (end < x.length && x[end] <= high) ++end;
  end = Math.min(x.length, end + 1);
  const first = x[0], last = x[x.length - 1], coarse = Math.max(20, columns >> 3);
  if (begin > 0) reduceInto(places, x, y, 0, begin, first, Math.max(low, first), coarse);
  reduceInto(places, x, y, begin, end, Math.max(low, first), Math.min(high, last), columns);
  if (end < x.length) reduceInto(places, x, y, end, x.length, high, last, coarse);
  return places;
}

// Rows of [x, value of each line] for dygraphs: null where a line has no value there, NaN where it breaks. `lines` have x, y
// and the places to draw; a line with several values at one x takes as many rows.
function joinedRows(lines, isShown) {
  const at = lines.map(() => 0), rows = [];
  for (;;) {
    let x = Infinity;
    lines.forEach((line, k) => { if (at[k] < line.places.length) x = Math.min(x, line.x[line.places[at[k]]]); });
    if (x === Infinity) return rows;
    const row = new Array(lines.length + 1).fill(null);
    row[0] = x;
    lines.forEach((line, k) => {
      const place = line.places[at[k]];
      if (at[k] >= line.places.length || line.x[place] !== x) return;
      row[k + 1] = isShown(line.y[place]) ? line.y[place] : NaN;
      ++at[k];
    });
    rows.push(row);
  }
}

// Smallest, largest and number of the finite values near a place of the axis; else the one before it.
function valuesNear(x, y, at, half) {
  let begin = lowerBound(x, at - half), count = 0, smallest = Infinity, largest = -Infinity;
  for (let i = begin; i < x.length && x[i] <= at + half; ++i) {
    if (!Number.isFinite(y[i])) continue;
    ++count;
    smallest = Math.min(smallest, y[i]);
    largest = Math.max(largest, y[i]);
  }
  if (count > 0) return {count, smallest, largest};
  if (begin < x.length && x[begin] <= at + half) return {count: 1, smallest: y[begin], largest: y[begin]};
  if (begin === 0 || begin === x.length) return null;
  return {count: 1, smallest: y[begin - 1], largest: y[begin - 1], before: x[begin - 1]};
}
