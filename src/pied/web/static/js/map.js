// Maps over two settings on a canvas: where limits are met, and the limits themselves as lines that can be dragged.
import { cut, powerTicks, ticks } from "./charts.js";
import { color } from "./dom.js";

const NEAR = 14; // pixels from a line within which it is dragged

// The place of a value on a grid, in steps.
function placeOf(values, value) {
  let k = 0;
  while (k < values.length - 2 && values[k + 1] < value) k++;
  return k + (value - values[k]) / (values[k + 1] - values[k] || 1);
}

// The axes of a map: a pen, and how places of the grid become pixels.
function axes(canvas, shown, { labels = [[], []], units = ["", ""], logs = [false, false] }) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 480, height = Math.round(width * 0.72);
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui";
  const xs = shown.across.values, ys = shown.up.values, n = xs.length, [low, high] = [0, n - 1];
  const marks = (values, names, isLog, most) => (names.length ? names.map((name, k) => [placeOf(values, k), cut(name, "", most)])
    : (isLog ? powerTicks(values[low], values[high]) : ticks(values[low], values[high])).map((value) => [placeOf(values, value), String(value)]));
  const beside = marks(ys, labels[1], logs[1], 14), below = marks(xs, labels[0], logs[0], Math.max(4, Math.floor((width - 80) / 7 / Math.max(1, labels[0].length))));
  const left = 34 + Math.max(...beside.map(([, text]) => pen.measureText(text).width)), bottom = 44, top = 8, right = 14;
  const across = (place) => left + (place * (width - left - right)) / (n - 1), up = (place) => height - bottom - (place * (height - top - bottom)) / (n - 1);
  // fill the cells of a kind at once: one by one, their seams would show
  const cells = (isOf, fill, alpha = 1) => {
    const w = (width - left - right) / (n - 1), t = (height - top - bottom) / (n - 1);
    pen.beginPath();
    for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) {
      if (!isOf(i, j)) continue;
      const x0 = Math.max(left, across(i) - w / 2), x1 = Math.min(width - right, across(i) + w / 2), y0 = Math.max(top, up(j) - t / 2), y1 = Math.min(height - bottom, up(j) + t / 2);
      pen.rect(x0, y0, x1 - x0 + 0.5, y1 - y0 + 0.5);
    }
    pen.fillStyle = fill; pen.globalAlpha = alpha; pen.fill(); pen.globalAlpha = 1;
  };
  const frame = () => {
    pen.fillStyle = color("dim"); pen.strokeStyle = color("line"); pen.lineWidth = 1; pen.textAlign = "center";
    pen.strokeRect(left, top, width - left - right, height - top - bottom);
    for (const [k, text] of below) pen.fillText(text, across(k), height - bottom + 16);
    pen.fillText(cut(shown.across.name, units[0], Math.floor((width - left) / 7)), (left + width - right) / 2, height - 8);
    pen.textAlign = "right";
    for (const [k, text] of beside) pen.fillText(text, left - 6, up(k) + 4);
    pen.save(); pen.translate(13, (height - bottom + top) / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(cut(shown.up.name, units[1], Math.floor((height - bottom) / 7)), 0, 0); pen.restore();
  };
  // the place of the grid under a pixel of the canvas
  const under = (x, y) => [((x - left) / (width - left - right)) * (n - 1), ((height - bottom - y) / (height - top - bottom)) * (n - 1)];
  return { pen, xs, ys, n, across, up, cells, frame, under };
}

function marks({ pen, xs, ys, across, up }, points, best) {
  for (const [x, y, ok] of points) {
    pen.beginPath(); pen.arc(across(placeOf(xs, x)), up(placeOf(ys, y)), 4, 0, 7);
    pen.fillStyle = color(ok === false ? "red" : ok ? "blue" : "dim"); pen.fill();
    pen.strokeStyle = color("card"); pen.lineWidth = 1; pen.stroke();
  }
  if (!best) return;
  const x = across(placeOf(xs, best[0])), y = up(placeOf(ys, best[1]));
  pen.strokeStyle = color("text"); pen.lineWidth = 2.5;
  pen.beginPath(); pen.moveTo(x - 9, y); pen.lineTo(x + 9, y); pen.moveTo(x, y - 9); pen.lineTo(x, y + 9); pen.stroke();
  pen.beginPath(); pen.arc(x, y, 6, 0, 7); pen.stroke();
}

// Where all limits are certainly, possibly and not met; the trials; the recommended point.
export function drawMap(canvas, shown, { points = [], best = null, ...words }) {
  const plot = axes(canvas, shown, words);
  plot.cells(() => true, color("excluded"));
  plot.cells((i, j) => shown.possible[j][i], color("possible"));
  plot.cells((i, j) => shown.certain[j][i], color("certain"));
  contours(plot, shown.objective);
  marks(plot, points, best);
  plot.frame();
}

// Every limit as a line in its own colour, beyond it shaded: what is left free meets all of them as expected.
// `limits`: [{sign, value, values}] as they are moved; `onMove(k, value)` when a line is dragged, and `drag` remembers which.
export function drawOverlay(canvas, shown, limits, { points = [], best = null, onMove, drag, ...words }) {
  const plot = axes(canvas, shown, words), { pen, across, up, n } = plot;
  const breaks = (each, value) => value !== null && (each.sign === "<=" ? value > each.value : value < each.value);
  contours(plot, shown.objective);
  limits.forEach((each, k) => plot.cells((i, j) => breaks(each, each.values[j][i]), color(LINES[k % LINES.length]), 0.2));
  limits.forEach((each, k) => {
    pen.strokeStyle = color(LINES[k % LINES.length]); pen.lineWidth = 2.5;
    pen.beginPath(); level(each.values, each.value, across, up, pen); pen.stroke();
  });
  marks(plot, points, best);
  plot.frame();
  const bent = (each, i, j) => { // the quantity between the points of the grid, and its slopes
    const a = Math.min(n - 2, Math.max(0, Math.floor(i))), b = Math.min(n - 2, Math.max(0, Math.floor(j))), [u, v] = [i - a, j - b], z = each.values;
    const [p, q, r, s] = [z[b][a], z[b][a + 1], z[b + 1][a], z[b + 1][a + 1]];
    return { value: (1 - v) * ((1 - u) * p + u * q) + v * ((1 - u) * r + u * s), slope: Math.hypot((1 - v) * (q - p) + v * (s - r), (1 - u) * (r - p) + u * (s - q)) };
  };
  const where = (event) => { const box = canvas.getBoundingClientRect(); return plot.under(event.clientX - box.left, event.clientY - box.top); };
  canvas.onpointerdown = (event) => {
    const step = across(1) - across(0);
    const far = limits.map((each) => { const { value, slope } = bent(each, ...where(event)); return (Math.abs(value - each.value) / (slope || 1e-300)) * step; });
    const nearest = far.indexOf(Math.min(...far));
    drag.held = far[nearest] < NEAR ? nearest : -1;
    if (drag.held >= 0) canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (!(drag.held >= 0)) return;
    const { value } = bent(limits[drag.held], ...where(event));
    if (Number.isFinite(value)) onMove(drag.held, value);
  };
  canvas.onpointerup = canvas.onpointercancel = () => { drag.held = -1; };
}

export const LINES = ["red", "amber", "green", "blue", "violet"]; // colours of limits

// A line of equal value, by marching squares.
function level(values, z, across, up, pen) {
  for (let j = 0; j + 1 < values.length; j++) for (let i = 0; i + 1 < values[j].length; i++) {
    const corner = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], ends = [];
    for (let e = 0; e < 4; e++) {
      const [a, b] = [corner[e], corner[(e + 1) % 4]], p = values[a[1]][a[0]], q = values[b[1]][b[0]];
      if (p !== null && q !== null && (p < z) !== (q < z)) { const f = (z - p) / (q - p); ends.push([a[0] + f * (b[0] - a[0]), a[1] + f * (b[1] - a[1])]); }
    }
    for (let e = 0; e + 1 < ends.length; e += 2) { pen.moveTo(across(ends[e][0]), up(ends[e][1])); pen.lineTo(across(ends[e + 1][0]), up(ends[e + 1][1])); }
  }
}

// Lines of equal objective.
function contours({ pen, across, up }, values) {
  const flat = values.flat().filter((v) => v !== null), low = Math.min(...flat), high = Math.max(...flat);
  if (!(high > low)) return;
  pen.strokeStyle = color("dim"); pen.globalAlpha = 0.55; pen.lineWidth = 1;
  pen.beginPath();
  for (let k = 1; k < 9; k++) level(values, low + ((high - low) * k) / 9, across, up, pen);
  pen.stroke();
  pen.globalAlpha = 1;
}
