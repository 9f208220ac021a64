// What the study has learned: slices through a movable point, the map, predicted against measured, which settings matter.
import { at, get, post } from "./api.js";
import { chart, drawMap, inside } from "./charts.js";
import { color, fill, h, num, united } from "./dom.js";
import { title } from "./study.js";
import { mapLegend, mapPoints, mapWords } from "./whatif.js";

export async function understandPage(page, study) {
  const [about, trials] = await Promise.all([get(at(study)), get(at(study, "/trials"))]);
  const head = h("div", {}, title(about));
  if (about.trials_told < 2) { fill(page, head, h("div", { class: "card" }, "This needs at least two complete measurements.")); return null; }
  const result = await get(at(study, "/result")).catch(() => null);
  const free = about.variables.filter((each) => each.free);
  const point = Object.fromEntries(about.variables.map((v) => [v.name, result?.x ? result.x[v.name] : v.labels.length ? v.labels[0] : (v.lo + v.hi) / 2]));
  const places = h("div", { class: "grid" }), canvas = h("canvas", { class: "map", role: "img", "aria-label": "Map of the settings that meet all limits" });
  const predicted = h("div", { class: "grid" }, h("p", { class: "dim" }, "Computing …")), weights = h("section", { class: "card wide" }, h("p", { class: "dim" }, "Computing …"));
  const error = h("p", { class: "error", role: "alert" });
  const what = h("select", { onchange: draw });
  const select = (value, change) => Object.assign(h("select", { onchange: change }, free.map((v) => h("option", { value: v.name }, v.name))), { value });
  const across = select(free[0].name, ask), up = select((free[1] || free[0]).name, ask);
  let slices = null, busy = false, again = false;
  const controls = free.map((v) => {
    if (v.labels.length) return h("label", {}, v.name, Object.assign(h("select", { onchange: (e) => { point[v.name] = e.target.value; ask(); } }, v.labels.map((each) => h("option", { value: each }, each))), { value: point[v.name] }));
    const [there, back] = v.log ? [Math.log10, (u) => 10 ** u] : [(x) => x, (u) => u]; // a slider over powers of ten
    const number = h("input", { type: "number", step: "any", value: num(point[v.name], 6), "aria-label": `${v.name}, as a number`, onchange: () => { point[v.name] = Number(number.value); range.value = there(point[v.name]); ask(); } });
    const range = h("input", { type: "range", min: there(v.lo), max: there(v.hi), step: v.levels.length ? "any" : (there(v.hi) - there(v.lo)) / 200, value: there(point[v.name]), "aria-label": `${v.name} ${v.unit}`, oninput: () => { let next = Math.min(v.hi, Math.max(v.lo, back(Number(range.value)))); if (v.levels.length) next = v.levels.reduce((a, b) => (Math.abs(b - next) < Math.abs(a - next) ? b : a)); point[v.name] = next; number.value = num(next, 6); ask(); } });
    return h("div", { class: "slider" }, h("span", { class: "name" }, united(v.name, v.unit && `[${v.unit}]`)), range, number);
  });
  fill(page, head,
    h("section", { class: "card" }, h("h2", {}, "Through which point"), controls, h("div", { class: "row" }, h("label", {}, "Show", what), h("button", { onclick: () => location.reload() }, "Back to the recommended point")), h("p", { class: "small dim" }, "One setting changes along each picture, the others stay as above. The band is where the value probably lies; dots are measurements near the point; the dashed line is the limit."), error),
    places, h("p"),
    h("div", { class: "two" }, free.length > 1 ? h("section", { class: "card" }, h("h2", {}, "Which settings meet all limits"), h("div", { class: "row" }, h("label", {}, "across", across), h("label", {}, "up", up)), canvas, mapLegend()) : h("div"), weights),
    h("h2", {}, "Predicted against measured"), h("p", { class: "small dim" }, "Each measurement, and what all others predict for it. On the line the prediction is exact; bars are the range in which it was expected."), predicted);

  async function ask() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      slices = await post(at(study, "/slices"), { at: point });
      if (!what.options.length) fill(what, slices.functions.map((name, k) => h("option", { value: `functions.${k}` }, k ? `limit: ${name}` : name)), slices.outputs.map((name, k) => h("option", { value: `outputs.${k}` }, `measured: ${name}`)));
      draw();
      if (free.length > 1 && across.value !== up.value) {
        const shown = await post(at(study, "/map"), { at: point, across: across.value, up: up.value }), words = mapWords(about, across.value, up.value);
        drawMap(canvas, shown, { points: mapPoints(about, trials, across.value, up.value), best: words.code(point), ...words });
      }
      error.textContent = "";
    } catch (problem) { error.textContent = problem.message; }
    busy = false;
    if (again) { again = false; ask(); }
  }
  function draw() {
    if (!slices) return;
    const [group, k] = what.value.split("."), place = Number(k), limit = group === "functions" && place ? about.limits[place - 1] : null;
    const name = slices[group][place], unit = group === "outputs" ? about.outputs[place].unit : place ? limit.unit : about.unit;
    const cards = slices.slices.map((each) => {
      const spot = h("div", { class: "chart", role: "img", "aria-label": `${name} along ${each.name}` });
      return { spot, each, card: h("section", { class: "card" }, h("h2", {}, each.labels.length ? each.name : `along ${each.name}`), spot, each.follows.length ? h("p", { class: "small dim" }, `${each.follows.join(" and ")} follow${each.follows.length > 1 ? "" : "s"}`) : null) };
    });
    fill(places, cards.map((each) => each.card));
    for (const { spot, each } of cards) {
      const data = each[group], v = about.variables.find((one) => one.name === each.name);
      const near = trials.filter((t) => t.state === "told" && free.every((o) => o.name === each.name || o.labels.length || (o.log ? Math.abs(Math.log(t.x[o.name] / point[o.name])) <= 0.15 * Math.log(o.hi / o.lo) : Math.abs(t.x[o.name] - point[o.name]) <= 0.15 * (o.hi - o.lo))));
      const measured = new Map(near.map((t) => [v.labels.length ? v.labels.indexOf(t.x[each.name]) : t.x[each.name], group === "outputs" ? t.y[name] : place ? (limit.value === undefined ? t.margins[place - 1] : limit.sign === "<=" ? limit.value - t.margins[place - 1] : limit.value + t.margins[place - 1]) : t.value]));
      const xs = [...new Set([...each.along, ...measured.keys()])].sort((a, b) => a - b), pickOf = (list) => { const by = new Map(each.along.map((x, i) => [x, list[i]])); return xs.map((x) => by.get(x) ?? null); };
      const series = [pickOf(data.low[place]), pickOf(data.high[place]), pickOf(data.middle[place]), xs.map((x) => measured.get(x) ?? null)];
      const kinds = each.labels.length ? "points" : "line";
      const plotted = [xs, series[1], series[0], series[2], series[3]], rows = [{ label: "high", kind: kinds, color: "certain", width: 1, size: 4 }, { label: "low", kind: kinds, color: "certain", width: 1, size: 4 }, { label: "expected", kind: kinds, color: "blue" }, { label: "measured", kind: "points", color: "amber", size: 6 }];
      if (limit && limit.value !== undefined) { plotted.push(xs.map(() => limit.value)); rows.push({ label: "limit", kind: "line", color: "red", dash: [6, 4], width: 1.5 }); }
      const here = each.at;
      chart(spot, { x: each.name, along: { unit: v.unit, labels: each.labels, log: v.log }, y: name, unit, data: plotted, series: rows, bands: each.labels.length ? [] : [[1, 2]], height: 220,
        hooks: { draw: [(u) => { const x = u.valToPos(here, "x", true); inside(u, (pen) => { pen.strokeStyle = color("dim"); pen.setLineDash([2, 4]); pen.beginPath(); pen.moveTo(x, u.bbox.top); pen.lineTo(x, u.bbox.top + u.bbox.height); pen.stroke(); }); }] } });
    }
  }
  await ask();
  post(at(study, "/importance")).then((found) => {
    const every = [...Object.entries(found.functions).filter(([name]) => !(name in found.outputs)), ...Object.entries(found.outputs)];
    const row = (name, shares) => h("tr", {}, h("td", {}, name), shares.map((share) => h("td", { class: "n" }, h("span", { class: "bar" }), ` ${Math.round(100 * share)} %`)));
    fill(weights, h("h2", {}, "Which settings matter"), h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, ""), found.variables.map((name) => h("th", { class: "n" }, name)))), h("tbody", {}, every.map(([name, shares]) => row(name, shares)))), h("p", { class: "small dim" }, "The share of the variation within the ranges in which a setting takes part. Shares can add up to more than 100 % where settings act together."));
    let k = 0;
    const shares = every.map(([, each]) => each).flat();
    weights.querySelectorAll(".bar").forEach((bar) => { bar.style.width = `${Math.round(48 * shares[k++])}px`; });
  }).catch((problem) => fill(weights, h("p", { class: "error" }, problem.message)));
  post(at(study, "/predictions")).then((found) => {
    const cards = found.outputs.slice(0, 24).map((each) => ({ each, spot: h("div", { class: "chart", role: "img", "aria-label": `${each.name}: predicted against measured` }) }));
    fill(predicted, cards.map(({ each, spot }) => h("section", { class: "card" }, h("h2", {}, united(each.name, each.unit && `[${each.unit}]`)), spot, h("p", { class: "small dim" }, `${each.inside[0]} of ${each.inside[1]} within the expected range; typical error ${num(each.error, 2)}`))));
    for (const { each, spot } of cards) {
      const order = each.measured.map((_, i) => i).filter((i) => each.measured[i] !== null && each.middle[i] !== null).sort((a, b) => each.measured[a] - each.measured[b]);
      if (!order.length) { fill(spot, h("p", { class: "dim" }, "Too few measurements.")); continue; }
      const m = order.map((i) => each.measured[i]);
      chart(spot, { x: "measured", y: "predicted", height: 220, data: [m, m, order.map((i) => each.middle[i])], series: [{ label: "exact", kind: "line", color: "dim", width: 1 }, { label: "predicted", kind: "points", color: "blue", size: 6 }],
        hooks: { draw: [(u) => inside(u, (pen) => { pen.strokeStyle = color("certain"); order.forEach((i, k) => { const x = u.valToPos(m[k], "x", true); pen.beginPath(); pen.moveTo(x, u.valToPos(each.low[i], "y", true)); pen.lineTo(x, u.valToPos(each.high[i], "y", true)); pen.stroke(); }); })] } });
    }
  }).catch((problem) => fill(predicted, h("p", { class: "error" }, problem.message)));
  return null;
}
