// Charts by uPlot, with round ticks: value and best, gap, slices, predicted against measured.
import uPlot from "/static/vendor/uplot.js";
import { color, h, num } from "./dom.js";

const open = new Set();

function axis(label, more = {}) {
  return { label, labelSize: 22, labelFont: "13px system-ui", font: "12px system-ui", stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, ...more };
}

const tick = (self, values) => values.map((value) => (value === null ? "" : num(value, 4)));

const power = (self, values) => values.map((value) => (value === null ? "" : num(value, 1)));

const wide = (self, values) => Math.max(48, 26 + 7.5 * Math.max(0, ...(values || []).map((each) => String(each).length))); // room for the longest number

const powers = (self, splits) => splits.map((value) => (Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9 ? value : null));

const STEPS = Array.from({ length: 60 }, (_, k) => Number(`${[1, 2, 5][k % 3]}e${Math.floor(k / 3) - 9}`)); // round ticks: 1, 2, 5, 10, …

// Round numbers across a range, some `count` of them.
export function ticks(low, high, count = 4) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Round numbers across powers of ten: 0.1, 0.2, 0.5, 1, …, or the powers alone where these are many.
export function powerTicks(low, high) {
  const found = [], digits = Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5];
  for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) for (const digit of digits) found.push(Number(`${digit}e${k}`));
  return found.filter((each) => each >= low * (1 - 1e-9) && each <= high * (1 + 1e-9));
}

// A hook that draws ranges [x, low, high] as bars behind the points.
export function bars(ranges, width = 5) {
  return (plot) => inside(plot, (pen) => {
    const ratio = window.devicePixelRatio || 1, at = (value, axis) => plot.valToPos(value, axis, true);
    pen.fillStyle = color("blue-soft"); pen.strokeStyle = color("certain"); pen.lineWidth = ratio;
    for (const [x, low, high] of ranges) {
      const top = at(high, "y"), left = at(x, "x") - (width * ratio) / 2;
      pen.fillRect(left, top, width * ratio, at(low, "y") - top); pen.strokeRect(left, top, width * ratio, at(low, "y") - top);
    }
  });
}

// A name that may be long, in at most so many characters; its unit stays whole where it is short.
export function cut(name, unit, most) {
  const end = unit ? ` [${unit.length > 16 ? `${unit.slice(0, 15)}…` : unit}]` : "", room = Math.max(6, most - end.length);
  return (name.length > room ? `${name.slice(0, room - 1)}…` : name) + end;
}

// Draw within the axes alone.
export function inside(plot, draw) {
  plot.ctx.save();
  plot.ctx.beginPath();
  plot.ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  plot.ctx.clip();
  draw(plot.ctx);
  plot.ctx.restore();
}

// A chart in `place` with series [{label, kind: "line"|"points"|"steps"|"band", color, dash}]; it follows the width of its place.
// Labels are places 0, 1, … along x.
export function chart(place, { x, y, unit = "", data, series, bands = [], height = 240, log = false, along = {}, hooks = {}, whole = false, range = null }) {
  for (const old of [...open]) if (old.place === place || !old.place.isConnected) { old.plot.destroy(); old.watch.disconnect(); open.delete(old); }
  place.replaceChildren();
  const made = series.map((each) => ({
    label: each.label, stroke: each.color && color(each.color), width: each.kind === "points" ? 0 : each.width ?? 2, dash: each.dash, spanGaps: true,
    paths: each.kind === "points" ? () => null : each.kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined,
    points: { show: each.kind === "points", size: each.size ?? 7, fill: each.hollow ? "transparent" : each.color && color(each.color), stroke: each.color && color(each.color), width: each.hollow ? 2 : 1 },
  }));
  const width = Math.max(220, place.clientWidth || 400), labels = along.labels || [], most = Math.max(5, Math.floor((width - 80) / 8 / Math.max(1, labels.length)));
  const named = labels.length ? { splits: () => labels.map((_, k) => k), values: () => labels.map((each) => cut(each, "", most)) } : along.log ? { splits: (plot, which, low, high) => powerTicks(low, high), values: power, filter: (plot, splits) => splits } : { values: tick, incrs: whole ? STEPS.filter((each) => each >= 1) : STEPS };
  const span = labels.length ? { range: [-0.5, labels.length - 0.5] } : along.log ? { distr: 3, range: (plot, low, high) => [low, high] } : {};
  const options = {
    width, height, cursor: { drag: { x: false, y: false } }, legend: { show: false }, hooks,
    scales: { x: { time: false, ...span }, y: log ? { distr: 3 } : range ? { range } : {} },
    axes: [axis(cut(x, along.unit, Math.floor((width - 80) / 7)), { size: 34, labelSize: 18, ...named }), axis(cut(y, unit, Math.floor((height - 50) / 7)), { size: wide, space: 24, values: log ? power : tick, ...(log ? { filter: powers } : { incrs: STEPS }) })],
    series: [{}, ...made], bands: bands.map((each) => ({ series: each, fill: color("blue-soft") })),
  };
  const plot = new uPlot(options, data, place);
  const entry = { place, plot };
  entry.watch = new ResizeObserver(() => { if (place.clientWidth > 100) plot.setSize({ width: place.clientWidth, height }); });
  entry.watch.observe(place);
  open.add(entry);
  return plot;
}

export function chartCard(title, text, legend = []) {
  const place = h("div", { class: "chart", role: "img", "aria-label": text ? `${title}. ${text}` : title });
  const marks = legend.length ? h("div", { class: "legend" }, legend.map(([kind, words]) => h("span", {}, h("i", { class: kind }), words))) : null;
  const name = h("h2", {}, title);
  return { card: h("section", { class: "card" }, name, place, marks, text ? h("p", { class: "small dim" }, text) : null), place, name };
}
