// SPDX-License-Identifier: Apache-2.0
// Texts of numbers and times, and elements of the page. Texts of runs become text nodes, never HTML.

const kColours = 7;
const kSvg = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function make(tag, attributes = {}, ...children) { return fill(document.createElement(tag), attributes, children); }

function draw(tag, attributes = {}, ...children) { return fill(document.createElementNS(kSvg, tag), attributes, children); }

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

// A number with about six digits; whole ones in full, with groups of three.
function numberText(value) {
  if (typeof value !== "number") return "–";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return value.toLocaleString("en").replaceAll(",", "\u202f").replace("-", "−");
  if (size >= 1e6 || size < 1e-4) return value.toExponential(3).replace("e+", "e").replace(/\.?0+e/, "e").replaceAll("-", "−");
  return value.toPrecision(size >= 1000 ? 7 : 5).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "").replace("-", "−");
}

// Whether values of that name are bytes or seconds, which have units of their own.
function unitOf(name) {
  if (/bytes|memory/.test(name)) return "bytes";
  if (/seconds$|(^|[_/])time$|^sync\/(step_time|skew|lateness|exposed)/.test(name)) return "seconds";
  return "";
}

function valueText(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return numberText(value);
  if (unit === "bytes") return bytesText(value);
  if (unit === "seconds") return microsecondsText(value * 1e6);
  return numberText(value);
}

function bytesText(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (Math.abs(value) >= 1024 && place < units.length - 1) { value /= 1024; ++place; }
  return `${place === 0 ? numberText(value) : numberText(Number(value.toPrecision(4)))}\u202f${units[place]}`;
}

function microsecondsText(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${numberText(Number((value / 1e6).toPrecision(4)))}\u202fs`;
  if (size >= 1e3) return `${numberText(Number((value / 1e3).toPrecision(4)))}\u202fms`;
  return `${numberText(Number(value.toPrecision(3)))}\u202fµs`;
}

function durationText(seconds) {
  if (!Number.isFinite(seconds)) return "not recorded";
  if (seconds < 60) return `${seconds.toPrecision(3)} s`;
  const whole = Math.round(seconds), part = (value) => String(value).padStart(2, "0");
  return whole < 3600 ? `${Math.floor(whole / 60)}:${part(whole % 60)} min` : `${Math.floor(whole / 3600)}:${part(Math.floor(whole / 60) % 60)}:${part(whole % 60)} h`;
}

function plural(count, one, many) { return `${numberText(count)} ${count === 1 ? one : many || one + "s"}`; }

function median(values) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Buttons of which one is chosen; none where there is no choice.
function tabs(names, chosen, choose) {
  if (names.length < 2) return null;
  const buttons = names.map((name, place) => make("button", {type: "button", "aria-pressed": String(place === chosen), onclick: () => choose(place)}, name));
  return make("div", {class: "tabs"}, ...buttons);
}
