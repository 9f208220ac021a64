// What the study has learned: slices through a movable point, effects, maps of the limits, all trials at once, and how
// well measurements are predicted.
import { at, get, post } from "./api.js";
import { bars, chart, inside } from "./charts.js";
import { color, fill, h, num, span, united } from "./dom.js";
import { drawMap, drawOverlay, LINES } from "./map.js";
import { parallel } from "./parallel.js";
import { title } from "./study.js";
import { mapLegend, mapPoints, mapWords } from "./whatif.js";

const CLOSE = 0.15; // of a range: measurements within are near the point of the slices

export async function understandPage(page, study) {
  const [about, trials] = await Promise.all([get(at(study)), get(at(study, "/trials"))]);
  const head = h("div", {}, title(about));
  if (about.trials_told < 2) { fill(page, head, h("div", { class: "card" }, "This needs at least two complete measurements.")); return null; }
  const result = await get(at(study, "/result")).catch(() => null);
  const free = about.variables.filter((each) => each.free);
  const point = Object.fromEntries(about.variables.map((v) => [v.name, result?.x ? result.x[v.name] : v.labels.length ? v.labels[0] : (v.lo + v.hi) / 2]));
  const waiting = () => h("p", { class: "dim" }, "Computing …");
  const places = h("div", { class: "grid" }), effects = h("section", { class: "card" }), weights = h("section", { class: "card" }, waiting());
  const predicted = h("div", { class: "grid" }, waiting()), repeated = h("section", { class: "card" }, waiting());
  const error = h("p", { class: "error", role: "alert" }), what = h("select", { onchange: () => slices && drawSlices(places, about, trials, slices, point, what.value) });
  const select = (value) => Object.assign(h("select", { onchange: ask }, free.map((v) => h("option", { value: v.name }, v.name))), { value });
  const across = select(free[0].name), up = select((free[1] || free[0]).name), maps = mapCards(about, trials, across, up);
  let slices = null, busy = false, again = false;
  fill(page, head,
    h("section", { class: "card" }, h("h2", {}, "Through which point"), free.map((v) => pointControl(v, point, ask)), h("div", { class: "row" }, h("label", {}, "Show", what), h("button", { onclick: () => location.reload() }, "Back to the recommended point")), h("p", { class: "small dim" }, "One setting changes along each picture, the others stay as above. The band is where the value probably lies; dots are measurements near the point; the dashed line is the limit."), error),
    places, h("div", { class: "two" }, effects, weights), free.length > 1 ? maps.cards : null,
    h("section", { class: "card" }, h("h2", {}, "All trials at once"), parallel(about, trials, result?.trial, page.clientWidth - 80), h("div", { class: "legend" }, [["line", "meets all limits"], ["line bad", "breaks a limit"], ...(result?.trial ? [["line best", "recommended"]] : [])].map(([kind, text]) => h("span", {}, h("i", { class: kind }), text)))),
    h("h2", {}, "Predicted against measured"), h("p", { class: "small dim" }, "Each measurement, and what all others predict for it. On the line the prediction is exact; bars are the range in which it was expected."), predicted, repeated);

  async function ask() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      slices = await post(at(study, "/slices"), { at: point });
      if (!what.options.length) fill(what, slices.functions.map((name, k) => h("option", { value: `functions.${k}` }, k ? `limit: ${name}` : name)), slices.outputs.map((name, k) => h("option", { value: `outputs.${k}` }, `measured: ${name}`)));
      drawSlices(places, about, trials, slices, point, what.value);
      drawEffects(effects, slices);
      if (free.length > 1 && across.value !== up.value) maps.draw(await post(at(study, "/map"), { at: point, across: across.value, up: up.value }), point);
      error.textContent = "";
    } catch (problem) { error.textContent = problem.message; }
    busy = false;
    if (again) { again = false; ask(); }
  }
  await ask();
  const redraw = () => maps.redraw();
  addEventListener("resize", redraw);
  post(at(study, "/importance")).then((found) => drawWeights(weights, found)).catch((problem) => fill(weights, h("p", { class: "error" }, problem.message)));
  post(at(study, "/predictions")).then((found) => { drawPredictions(predicted, found); drawRepeated(repeated, about, trials, found); }).catch((problem) => { fill(predicted, h("p", { class: "error" }, problem.message)); fill(repeated); });
  return () => removeEventListener("resize", redraw);
}

// A slider or a list for one setting of the point.
function pointControl(v, point, ask) {
  if (v.labels.length) return h("div", { class: "row" }, h("label", {}, v.name, Object.assign(h("select", { onchange: (e) => { point[v.name] = e.target.value; ask(); } }, v.labels.map((each) => h("option", { value: each }, each))), { value: point[v.name] })));
  const [there, back] = v.log ? [Math.log10, (u) => 10 ** u] : [(x) => x, (u) => u]; // a slider over powers of ten
  const number = h("input", { type: "number", step: "any", value: num(point[v.name], 6), "aria-label": `${v.name}, as a number`, onchange: () => { point[v.name] = Number(number.value); range.value = there(point[v.name]); ask(); } });
  const moved = () => {
    let next = Math.min(v.hi, Math.max(v.lo, back(Number(range.value))));
    if (v.levels.length) next = v.levels.reduce((a, b) => (Math.abs(b - next) < Math.abs(a - next) ? b : a));
    point[v.name] = next; number.value = num(next, 6); ask();
  };
  const range = h("input", { type: "range", min: there(v.lo), max: there(v.hi), step: v.levels.length ? "any" : (there(v.hi) - there(v.lo)) / 200, value: there(point[v.name]), "aria-label": `${v.name} ${v.unit}`, oninput: moved });
  return h("div", { class: "slider" }, h("span", { class: "name" }, united(v.name, v.unit && `[${v.unit}]`)), range, number);
}

// ------------------------------------------------------------------------------------------------------------- slices

function drawSlices(place, about, trials, slices, point, shown) {
  const [group, k] = shown.split("."), which = Number(k), limit = group === "functions" && which ? about.limits[which - 1] : null;
  const name = slices[group][which], unit = group === "outputs" ? about.outputs[which].unit : which ? limit.unit : about.unit;
  const cards = slices.slices.map((each) => {
    const spot = h("div", { class: "chart", role: "img", "aria-label": `${name} along ${each.name}` });
    return { spot, each, card: h("section", { class: "card" }, h("h2", {}, `along ${each.name}`), spot, each.follows.length ? h("p", { class: "small dim" }, `${each.follows.join(" and ")} follow${each.follows.length > 1 ? "" : "s"}`) : null) };
  });
  fill(place, cards.map((each) => each.card));
  const value = (t) => (group === "outputs" ? t.y[name] : !which ? t.value : limit.value === undefined ? t.margins[which - 1] : limit.sign === "<=" ? limit.value - t.margins[which - 1] : limit.value + t.margins[which - 1]);
  for (const { spot, each } of cards) {
    const v = about.variables.find((one) => one.name === each.name), data = each[group], isListed = each.labels.length > 0;
    const measured = new Map(trials.filter((t) => t.state === "told" && isNear(about, t, point, each.name)).map((t) => [isListed ? v.labels.indexOf(t.x[each.name]) : t.x[each.name], value(t)]));
    const xs = [...new Set([...each.along, ...measured.keys()])].sort((a, b) => a - b), by = new Map(each.along.map((x, i) => [x, i])), pick = (list) => xs.map((x) => (by.has(x) ? list[by.get(x)] : null));
    const [low, middle, high] = [data.low[which], data.middle[which], data.high[which]];
    const plotted = [xs, pick(high), pick(low), pick(middle), xs.map((x) => measured.get(x) ?? null)], edge = isListed ? "transparent" : "certain";
    const rows = [{ label: "high", kind: "line", color: edge, width: 1 }, { label: "low", kind: "line", color: edge, width: 1 }, { label: "expected", kind: isListed ? "points" : "line", color: "blue", size: 9 }, { label: "measured", kind: "points", color: "amber", size: 6 }];
    if (limit && limit.value !== undefined) { plotted.push(xs.map(() => limit.value)); rows.push({ label: "limit", kind: "line", color: "red", dash: [6, 4], width: 1.5 }); }
    const ranges = isListed ? each.along.map((x, i) => [x, low[i], high[i]]).filter(([, a, b]) => a !== null && b !== null) : [];
    const here = (u) => inside(u, (pen) => { const x = u.valToPos(each.at, "x", true); pen.strokeStyle = color("dim"); pen.setLineDash([2, 4]); pen.beginPath(); pen.moveTo(x, u.bbox.top); pen.lineTo(x, u.bbox.top + u.bbox.height); pen.stroke(); });
    chart(spot, { x: each.name, along: { unit: v.unit, labels: each.labels, log: v.log }, y: name, unit, data: plotted, series: rows, bands: isListed ? [] : [[1, 2]], height: 220, hooks: { drawAxes: [bars(ranges, 26)], draw: [here] } });
  }
}

// Whether a trial is near a point in all settings but one.
function isNear(about, t, point, but) {
  return about.variables.filter((v) => v.free && v.name !== but && !v.labels.length).every((v) => (v.log
    ? Math.abs(Math.log(t.x[v.name] / point[v.name])) <= CLOSE * Math.log(v.hi / v.lo)
    : Math.abs(t.x[v.name] - point[v.name]) <= CLOSE * (v.hi - v.lo)));
}

// ------------------------------------------------------------------------------------------------------------- effects

// How much each function changes from the low to the high end of a setting, with its sign; of labels, between the extremes.
function drawEffects(place, slices) {
  const row = (name, group, k) => {
    const cells = slices.slices.map((each) => {
      const { low, middle, high } = each[group], known = middle[k].map((value, i) => (value === null ? -1 : i)).filter((i) => i >= 0);
      if (!known.length) return null;
      const sorted = each.labels.length ? [...known].sort((a, b) => middle[k][a] - middle[k][b]) : known, [from, to] = [sorted[0], sorted.at(-1)];
      const change = middle[k][to] - middle[k][from], isClear = change > 0 ? low[k][to] > high[k][from] : high[k][to] < low[k][from];
      const top = known.reduce((a, b) => (middle[k][b] > middle[k][a] ? b : a)), isBent = !each.labels.length && middle[k][top] - Math.max(middle[k][from], middle[k][to]) > 0.1 * Math.abs(change);
      return { change, isClear, words: each.labels.length ? each.labels[to] : isBent ? `most at ${num(each.along[top], 3)}` : "" };
    });
    const most = Math.max(...cells.map((each) => Math.abs(each?.change || 0))) || 1;
    return h("tr", {}, h("th", { scope: "row" }, name), cells.map((each) => h("td", { class: each?.isClear ? "" : "dim" }, each ? [signed(each.change / most), `${each.change > 0 ? "+" : ""}${num(each.change, 2)}`, each.words ? h("div", { class: "small dim" }, each.words) : null] : "–")));
  };
  const outputs = slices.outputs.slice(0, 12), known = new Set(slices.functions);
  fill(place, h("h2", {}, "Effects"), h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Effects" }, h("table", { id: "effects" }, h("thead", {}, h("tr", {}, h("td"), slices.slices.map((each) => h("th", { scope: "col" }, each.name)))),
    h("tbody", {}, slices.functions.map((name, k) => row(name, "functions", k)), outputs.map((name, k) => (known.has(name) ? null : row(name, "outputs", k)))))),
    h("p", { class: "small dim" }, "The change from the low to the high end of a setting through the point above; of a choice, from its lowest to its highest label, which is named. Grey: the ranges of the two ends overlap."));
}

function signed(share) {
  const bar = h("i", { class: share < 0 ? "less" : "more" });
  bar.style.width = `${50 * Math.abs(share)}%`;
  bar.style[share < 0 ? "right" : "left"] = "50%";
  return h("span", { class: "signed", "aria-hidden": "true" }, bar);
}

function drawWeights(place, found) {
  const every = [...Object.entries(found.functions).filter(([name]) => !(name in found.outputs)), ...Object.entries(found.outputs)];
  const share = (value) => { const bar = h("span", { class: "bar" }); bar.style.width = `${Math.round(48 * value)}px`; return h("td", { class: "n" }, bar, ` ${Math.round(100 * value)} %`); };
  fill(place, h("h2", {}, "Which settings matter"), h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Which settings matter" }, h("table", {}, h("thead", {}, h("tr", {}, h("td"), found.variables.map((name) => h("th", { class: "n", scope: "col" }, name)))), h("tbody", {}, every.map(([name, shares]) => h("tr", {}, h("th", { scope: "row" }, name), shares.map(share)))))),
    h("p", { class: "small dim" }, "The share of the variation within the ranges in which a setting takes part. Shares can add up to more than 100 % where settings act together."));
}

// ---------------------------------------------------------------------------------------------------------------- maps

// The map of what meets all limits, the overlay of the limits as they are moved, and the interaction of the two settings.
function mapCards(about, trials, across, up) {
  const canvas = (text) => h("canvas", { class: "map", role: "img", "aria-label": text });
  const map = canvas("Map of the settings that meet all limits"), overlay = canvas("Each limit as a line over two settings"), spot = h("div", { class: "chart", role: "img", "aria-label": "Interaction of the two settings" });
  const sliders = h("div"), drag = { held: -1 }, lines = h("div", { class: "legend" }), together = h("h2", {});
  let shown = null, point = null, limits = [];
  const words = () => ({ ...mapWords(about, across.value, up.value), points: mapPoints(about, trials, across.value, up.value) });
  const redrawOverlay = () => { const given = words(); if (limits.length) drawOverlay(overlay, shown, limits, { ...given, best: given.code(point), drag, onMove: (k, value) => limits[k].set(value) }); };
  function control(each, k) {
    const stated = about.limits.find((one) => one.name === each.name), flat = each.values.flat().filter((value) => value !== null), kept = limits.find((one) => one.name === each.name);
    const made = { ...each, sign: stated.sign, value: kept ? kept.value : stated.value };
    const ends = [Math.min(...flat, made.value), Math.max(...flat, made.value)], text = united(`${stated.quantity} ${stated.sign === "<=" ? "≤" : "≥"}`, stated.unit && `[${stated.unit}]`);
    const range = h("input", { type: "range", min: ends[0], max: ends[1], step: "any", value: made.value, "aria-label": text, oninput: () => made.set(Number(range.value)) });
    const number = h("input", { type: "number", step: "any", value: num(made.value, 4), "aria-label": `${text}, as a number`, onchange: () => made.set(Number(number.value)) });
    made.set = (value) => { made.value = value; range.value = value; number.value = num(value, 3); redrawOverlay(); };
    made.row = h("div", { class: "slider" }, h("span", { class: "name" }, h("i", { class: `key ${LINES[k % LINES.length]}` }), text), range, number);
    made.reset = () => made.set(stated.value);
    return made;
  }
  function draw(found, at) {
    [shown, point] = [found, at];
    limits = found.limits.map(control);
    fill(sliders, limits.map((each) => each.row), limits.length ? h("button", { class: "tiny", onclick: () => limits.forEach((each) => each.reset()) }, "Back to the question") : h("p", { class: "dim" }, "There are no limits that are numbers."));
    redraw();
  }
  function redraw() {
    if (!shown) return;
    const given = words();
    drawMap(map, shown, { ...given, best: given.code(point) });
    overlay.hidden = !limits.length;
    redrawOverlay();
    const of = (name) => about.variables.find((v) => v.name === name), [a, b] = [of(across.value), of(up.value)], n = shown.up.values.length;
    const at = b.labels.length ? b.labels.map((text, k) => [text, shown.up.values.findIndex((value) => Math.round(value) === k)]) : [0, (n - 1) >> 1, n - 1].map((k) => [united(num(shown.up.values[k], 3), b.unit), k]);
    const colors = at.map((_, k) => LINES[(k + 3) % LINES.length]), isListed = a.labels.length > 0;
    fill(lines, at.map(([text], k) => h("span", {}, h("i", { class: `line ${colors[k]}` }), `${b.name} ${text}`)));
    together.textContent = `How ${a.name} and ${b.name} act together`;
    chart(spot, { x: a.name, along: { unit: a.unit, log: a.log, ...(isListed ? { labels: a.labels } : {}) }, y: about.objective, unit: about.unit, height: 220, data: [shown.across.values, ...at.map(([, k]) => shown.objective[k])], series: at.map(([text], k) => ({ label: text, kind: isListed ? "steps" : "line", color: colors[k] })) });
  }
  const cards = [h("div", { class: "row" }, h("label", {}, "across", across), h("label", {}, "up", up)),
    h("div", { class: "two" }, h("section", { class: "card" }, h("h2", {}, "Which settings meet all limits"), map, mapLegend()),
      h("section", { class: "card", id: "overlay" }, h("h2", {}, "Overlay of the limits"), overlay, sliders, h("p", { class: "small dim" }, "Where nothing is shaded, all limits are expected to be met. Drag a line, or its slider, to see what another limit would leave; nothing is written."))),
    h("section", { class: "card" }, together, spot, lines, h("p", { class: "small dim" }, "Parallel lines: the two settings act independently."))];
  return { cards, draw, redraw };
}

// --------------------------------------------------------------------------------------------------------- predictions

function drawPredictions(place, found) {
  const cards = found.outputs.slice(0, 24).map((each) => ({ each, spot: h("div", { class: "chart", role: "img", "aria-label": `${each.name}: predicted against measured` }) }));
  fill(place, cards.map(({ each, spot }) => h("section", { class: "card" }, h("h2", {}, united(each.name, each.unit && `[${each.unit}]`)), spot, h("p", { class: "small dim" }, `${each.inside[0]} of ${each.inside[1]} within the expected range; typical error ${num(each.error, 2)}`))));
  for (const { each, spot } of cards) {
    const order = each.measured.map((_, i) => i).filter((i) => each.measured[i] !== null && each.middle[i] !== null).sort((a, b) => each.measured[a] - each.measured[b]);
    if (!order.length) { fill(spot, h("p", { class: "dim" }, "Too few measurements.")); continue; }
    const m = order.map((i) => each.measured[i]);
    const errors = (u) => inside(u, (pen) => { pen.strokeStyle = color("certain"); order.forEach((i, k) => { const x = u.valToPos(m[k], "x", true); pen.beginPath(); pen.moveTo(x, u.valToPos(each.low[i], "y", true)); pen.lineTo(x, u.valToPos(each.high[i], "y", true)); pen.stroke(); }); });
    chart(spot, { x: "measured", y: "predicted", height: 220, data: [m, m, order.map((i) => each.middle[i])], series: [{ label: "exact", kind: "line", color: "dim", width: 1 }, { label: "predicted", kind: "points", color: "blue", size: 6 }], hooks: { draw: [errors] } });
  }
}

// Settings that were measured more than once: how far they differ, and whether predictions err by more than that.
function drawRepeated(place, about, trials, found) {
  const groups = new Map();
  for (const t of trials.filter((each) => each.state === "told")) { const key = JSON.stringify(t.x); groups.set(key, [...(groups.get(key) || []), t]); }
  const repeats = [...groups.values()].filter((each) => each.length > 1);
  const row = (each) => {
    const sets = repeats.map((group) => group.map((t) => t.y[each.name]).filter((y) => typeof y === "number")).filter((ys) => ys.length > 1), free = sets.reduce((sum, ys) => sum + ys.length - 1, 0);
    if (!free) return null;
    const mean = (ys) => ys.reduce((a, b) => a + b, 0) / ys.length, pure = Math.sqrt(sets.reduce((sum, ys) => sum + ys.reduce((s, y) => s + (y - mean(ys)) ** 2, 0), 0) / free);
    const times = each.error / pure;
    return h("tr", {}, h("th", { scope: "row" }, united(each.name, each.unit && `[${each.unit}]`)), h("td", { class: "n" }, num(pure, 2)), h("td", { class: "n" }, free), h("td", { class: "n" }, num(each.error, 2)), h("td", { class: "n" }, Number.isFinite(times) ? num(times, 2) : "–"));
  };
  const rows = found.outputs.map(row).filter(Boolean);
  fill(place, h("h2", {}, "Repetitions and lack of fit"), !rows.length ? h("p", { class: "dim" }, "No settings were measured twice. A repetition shows how large the noise is, and whether predictions err by more.")
    : [h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Repetitions" }, h("table", {}, h("thead", {}, h("tr", {}, ["Output", "Deviation of repetitions", "Degrees of freedom", "Error of predictions", "Ratio"].map((text, k) => h("th", { scope: "col", class: k ? "n" : "" }, text)))), h("tbody", {}, rows))),
      h("p", { class: "small dim" }, `Repeated: ${repeats.map((group) => `trials ${group.map((t) => t.trial).join(", ")}`).join("; ")}. A ratio far above 1, with several degrees of freedom, means that something is not explained; of one or two it means little.`)]);
}
