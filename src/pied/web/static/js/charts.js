// Charts by uPlot: value and best, gap, margins, slices, predicted against measured; and the map on a canvas.
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
  const named = labels.length ? { splits: () => labels.map((_, k) => k), values: () => labels.map((each) => cut(each, "", most)) } : along.log ? { values: power, filter: powers } : { values: tick, incrs: whole ? STEPS.filter((each) => each >= 1) : STEPS };
  const span = labels.length ? { range: [-0.5, labels.length - 0.5] } : along.log ? { distr: 3 } : {};
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

// The map of the feasible region over two variables: certain, possible, excluded; the trials; the recommended point.
export function drawMap(canvas, shown, { points = [], best = null, labels = [[], []], units = ["", ""] }) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 480, height = Math.round(width * 0.72);
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  const xs = shown.across.values, ys = shown.up.values, n = xs.length;
  const at = (values, value) => { let k = 0; while (k < values.length - 2 && values[k + 1] < value) k++; return k + (value - values[k]) / (values[k + 1] - values[k] || 1); };
  const ticks = (values, names, most) => (names.length ? names.map((name, k) => [at(values, k), cut(name, "", most)]) : [0, 0.25, 0.5, 0.75, 1].map((part) => { const k = Math.round(part * (n - 1)); return [k, num(values[k], 3)]; }));
  pen.font = "12px system-ui";
  const beside = ticks(ys, labels[1], 14), below = ticks(xs, labels[0], Math.max(4, Math.floor((width - 80) / 7 / Math.max(1, labels[0].length)))), wide = (text) => pen.measureText(text).width;
  const left = 32 + Math.max(...beside.map(([, text]) => wide(text))), bottom = 44, top = 8, right = 8 + (labels[0].length ? 4 : wide(below.at(-1)[1]) / 2);
  const across = (place) => left + (place * (width - left - right)) / (n - 1);
  const up = (place) => height - bottom - (place * (height - top - bottom)) / (n - 1);
  const w = (width - left - right) / (n - 1), t = (height - top - bottom) / (n - 1);
  for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) {
    pen.fillStyle = color(shown.certain[j][i] ? "certain" : shown.possible[j][i] ? "possible" : "excluded");
    const x0 = Math.max(left, across(i) - w / 2), x1 = Math.min(width - right, across(i) + w / 2), y0 = Math.max(top, up(j) - t / 2), y1 = Math.min(height - bottom, up(j) + t / 2);
    pen.fillRect(x0, y0, x1 - x0 + 0.5, y1 - y0 + 0.5);
  }
  contours(pen, shown.objective, across, up);
  const dot = (x, y, fill, size) => { pen.beginPath(); pen.arc(across(at(xs, x)), up(at(ys, y)), size, 0, 7); pen.fillStyle = fill; pen.fill(); pen.strokeStyle = color("card"); pen.lineWidth = 1; pen.stroke(); };
  for (const [x, y, ok] of points) dot(x, y, color(ok === false ? "red" : ok ? "blue" : "dim"), 4);
  if (best) { const x = across(at(xs, best[0])), y = up(at(ys, best[1])); pen.strokeStyle = color("text"); pen.lineWidth = 2.5; pen.beginPath(); pen.moveTo(x - 9, y); pen.lineTo(x + 9, y); pen.moveTo(x, y - 9); pen.lineTo(x, y + 9); pen.stroke(); pen.beginPath(); pen.arc(x, y, 6, 0, 7); pen.stroke(); }
  pen.fillStyle = color("dim"); pen.font = "12px system-ui"; pen.textAlign = "center";
  for (const [k, text] of below) pen.fillText(text, across(k), height - bottom + 16);
  pen.fillText(cut(shown.across.name, units[0], Math.floor((width - left) / 7)), (left + width - right) / 2, height - 8);
  pen.textAlign = "right";
  for (const [k, text] of beside) pen.fillText(text, left - 6, up(k) + 4);
  pen.save(); pen.translate(13, (height - bottom + top) / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(cut(shown.up.name, units[1], Math.floor((height - bottom) / 7)), 0, 0); pen.restore();
}

// Lines of equal objective, by marching squares.
function contours(pen, values, across, up) {
  const flat = values.flat().filter((v) => v !== null);
  const low = Math.min(...flat), high = Math.max(...flat);
  if (!(high > low)) return;
  pen.strokeStyle = color("dim"); pen.globalAlpha = 0.55; pen.lineWidth = 1;
  for (let level = 1; level < 9; level++) {
    const z = low + ((high - low) * level) / 9;
    pen.beginPath();
    for (let j = 0; j + 1 < values.length; j++) for (let i = 0; i + 1 < values[j].length; i++) {
      const corner = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], cut = [];
      for (let e = 0; e < 4; e++) {
        const [a, b] = [corner[e], corner[(e + 1) % 4]], p = values[a[1]][a[0]], q = values[b[1]][b[0]];
        if (p !== null && q !== null && (p < z) !== (q < z)) { const f = (z - p) / (q - p); cut.push([a[0] + f * (b[0] - a[0]), a[1] + f * (b[1] - a[1])]); }
      }
      for (let e = 0; e + 1 < cut.length; e += 2) { pen.moveTo(across(cut[e][0]), up(cut[e][1])); pen.lineTo(across(cut[e + 1][0]), up(cut[e + 1][1])); }
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}
