// What if: a slider for every constant and every limit; the answer follows, nothing is written.
import { at, get, post, worker } from "./api.js";
import { drawMap } from "./map.js";
import { fill, h, num, say, span, united } from "./dom.js";
import { presentFields } from "./observed.js";
import { answerCard, title } from "./study.js";

export function mapPoints(about, trials, across, up) {
  const place = (name, value) => { const v = about.variables.find((each) => each.name === name); return v.labels.length ? v.labels.indexOf(value) : value; };
  return trials.filter((t) => t.state === "told").map((t) => [place(across, t.x[across]), place(up, t.x[up]), t.feasible]);
}
export function mapWords(about, across, up) {
  const [a, b] = [across, up].map((name) => about.variables.find((each) => each.name === name));
  return { labels: [a.labels, b.labels], units: [a.unit, b.unit], logs: [a.log, b.log], code: (x) => [[a, across], [b, up]].map(([v, name]) => (v.labels.length ? v.labels.indexOf(x[name]) : x[name])) };
}
export const mapLegend = () => h("div", { class: "legend" }, [["certain", "meets all limits"], ["possible", "may meet them"], ["excluded", "cannot"], ["dot", "measured"], ["dot bad", "measured, breaks a limit"]].map(([kind, text]) => h("span", {}, h("i", { class: kind }), text)), h("span", {}, "⊕ recommended; thin lines: equal objective"));

export async function whatIfPage(page, study, app) {
  const [about, trials] = await Promise.all([get(at(study)), get(at(study, "/trials"))]);
  const head = h("div", {}, title(about));
  if (about.trials_told < 2) { fill(page, head, h("div", { class: "card" }, "This needs at least two complete measurements.")); return null; }
  if (about.objectives.length > 1) { fill(page, head, h("div", { class: "card" }, "What if answers with one best point, and this study has several objectives: choose from its best trade-offs under “Overview”, or ask a study of one objective with limits for the others.")); return null; }
  const kept = [], state = { constants: {}, limits: {}, given: {} };
  const present = presentFields(about, () => { state.given = present.values(); ask(); });
  const answer = h("div", { "aria-live": "polite" }), table = h("section", { class: "card wide", tabindex: 0, role: "region", "aria-label": "Scenarios side by side" }), time = h("span", { class: "dim small", id: "took" });
  const free = about.variables.filter((each) => each.free).map((each) => each.name);
  const pick = (value) => Object.assign(h("select", { onchange: ask }, free.map((name) => h("option", { value: name }, name))), { value });
  const across = pick(free[0]), up = pick(free[1] || free[0]), canvas = h("canvas", { class: "map", role: "img", "aria-label": "Map of the settings that meet all limits" });
  const strip = h("p", { id: "now", role: "status" });
  let base = null, latest = null, worth = null, map = null, busy = false, again = false;

  const sliders = [...about.constants.map((each) => slider("constants", each.name, each.name, each.value, "")),
    ...about.limits.filter((each) => each.movable).map((each) => slider("limits", each.name, `${each.quantity} ${each.sign === "<=" ? "≤" : "≥"}`, each.value, each.unit))];
  function slider(kind, name, text, value, unit) {
    const size = Math.abs(value) || 1, id = `s-${kind}-${name}`;
    const range = h("input", { type: "range", id, min: value - size * (value ? 0.6 : 1), max: value + size, step: "any", value, "aria-label": `${text} ${unit}` });
    const number = h("input", { type: "number", step: "any", value, "aria-label": `${text}, as a number` });
    const set = (next) => { if (!Number.isFinite(next)) return; if (next < +range.min) range.min = next; if (next > +range.max) range.max = next; range.value = next; if (next === value) delete state[kind][name]; else state[kind][name] = next; ask(); };
    range.addEventListener("input", () => { const next = Number(Number(range.value).toPrecision(4)); number.value = next; set(next); });
    number.addEventListener("change", () => set(Number(number.value)));
    const row = h("div", { class: "slider" }, h("span", { class: "name" }, united(text, unit && `[${unit}]`)), range, number);
    return { row, reset: () => { range.value = value; number.value = value; delete state[kind][name]; } };
  }
  const note = h("input", { placeholder: "why the question changes", "aria-label": "Why the question changes", maxlength: 500 });
  const error = h("p", { class: "error", role: "alert" });

  // What prices and constants are worth gives an estimate at once; the exact answer follows.
  function estimate() {
    if (!base?.x || !worth || Object.keys(state.given).length || !Object.values(state).some((each) => Object.keys(each).length)) return null;
    const gain = (each, next) => each.rate * (next - each.at);
    let value = base.value;
    for (const [name, next] of Object.entries(state.constants)) { if (!worth.constants[name]) return null; value += gain(worth.constants[name], next); }
    for (const [name, next] of Object.entries(state.limits)) {
      if (!worth.limits[name]) return null;
      const isUpper = about.limits.find((each) => each.name === name).sign === "<=";
      value += gain(worth.limits[name], next) * (isUpper ? 1 : -1) * (about.minimizes ? -1 : 1);
    }
    return value;
  }
  function tell(isExact) {
    const value = isExact ? latest?.value : estimate(), number = value === null || value === undefined ? null : united(num(value, 4), about.unit);
    const met = latest?.feasible ? "all limits met" : "not all limits met";
    fill(strip, isExact ? [h("strong", {}, number ? `${about.objective} ${number}` : "no settings known"), ` · ${met}`] : number ? [h("strong", {}, `${about.objective} about ${number}`), h("span", { class: "dim" }, " · estimate, computing …")] : h("span", { class: "dim" }, "Computing …"));
  }
  async function ask() {
    if (latest) tell(false);
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now(), given = structuredClone(state);
    try {
      latest = await post(at(study, "/what-if"), given);
      base ??= latest;
      error.textContent = "";
      draw();
      time.textContent = `answered in ${num((performance.now() - began) / 1000, 2)} s; nothing is written`;
      if (!again) tell(true);
      if (!again && free.length > 1 && across.value !== up.value) {
        const shown = await post(at(study, "/map"), { constants: given.constants, limits: given.limits, at: latest.x, across: across.value, up: up.value });
        map = { shown, x: latest.x };
        redraw();
      }
    } catch (problem) { error.textContent = problem.message; if (!latest) fill(answer); }
    busy = false;
    if (again) { again = false; ask(); }
  }
  function redraw() {
    if (!map) return;
    const words = mapWords(about, across.value, up.value);
    drawMap(canvas, map.shown, { points: mapPoints(about, trials, across.value, up.value), best: map.x && words.code(map.x), ...words });
  }
  function draw() {
    fill(answer, answerCard(latest, "The best settings then"), h("section", { class: "card" }, h("h2", {}, "What a limit costs"), latest.prices.length ? h("dl", { class: "pairs" }, latest.prices.map((each) => [h("dt", {}, each.name), h("dd", {}, each.text)])) : h("p", { class: "dim" }, about.limits.length ? "No settings are known to meet all limits." : "There are no limits."), latest.prices_remark ? h("p", { class: "small dim" }, latest.prices_remark) : null));
    compare();
  }
  function compare() {
    const all = [{ name: "as it is asked now", data: base }, ...kept, { name: "as the sliders are", data: latest }];
    const row = (text, cell) => h("tr", {}, h("th", { scope: "row" }, text), all.map((each) => h("td", { class: "n" }, cell(each))));
    fill(table, h("h2", {}, "Scenarios side by side"), h("table", { id: "scenarios" }, h("thead", {}, h("tr", {}, h("td"), all.map((each, place) => h("th", { class: "n" }, each.name, place && place < all.length - 1 ? [" ", h("button", { class: "tiny", "aria-label": `Remove ${each.name}`, onclick: () => { kept.splice(place - 1, 1); compare(); } }, "×")] : null)))),
      h("tbody", {}, row(united(about.objective, about.unit && `[${about.unit}]`), ({ data }) => num(data.value, 5)), row("probably", ({ data }) => { const ends = Object.values(data.bounds)[0]; return ends ? span(...ends) : "–"; }), row("still possible", ({ data }) => num(data.gap, 2)),
        about.variables.map((each) => row(united(each.name, each.unit && `[${each.unit}]`), ({ data }) => (data.x ? num(data.x[each.name]) : "–"))),
        about.limits.map((each, place) => row(`margin of ${each.quantity || each.name}`, ({ data }) => num(Object.values(data.slack)[place], 3))))));
  }
  const moved = sliders.length ? sliders.map((each) => each.row) : h("p", { class: "dim" }, "This question has neither constants nor limits that are numbers, so nothing can be moved.");
  const buttons = h("div", { class: "row" }, h("button", { onclick: () => { sliders.forEach((each) => each.reset()); ask(); } }, "Back to the question"), h("button", { onclick: () => { if (latest) { kept.push({ name: `scenario ${kept.length + 1}`, data: latest }); compare(); } } }, "Keep beside"), time);
  fill(page, head, h("div", { class: "two" },
    h("section", { class: "card", id: "sliders" }, h("h2", {}, "Prices, constants and limits"), strip, present ? h("div", { class: "row" }, present.row) : null, moved, sliders.length ? buttons : time,
      app.read_only || !sliders.length ? null : h("div", { class: "row" }, h("label", {}, "Note", note), h("button", { class: "main", id: "ask-question", onclick: revise }, "Ask this question")), error),
    answer),
  h("div", { class: "two" }, table, free.length > 1 ? h("section", { class: "card map" }, h("h2", {}, "Which settings meet all limits"), h("div", { class: "row" }, h("label", {}, "across", across), h("label", {}, "up", up)), canvas, mapLegend()) : null));
  async function revise() {
    try {
      const made = await post(at(study, "/revise"), { constants: state.constants, limits: state.limits, note: note.value, worker: worker() });
      say(`This is question ${made.question} now. The data are kept.`);
      location.hash = `#/s/${encodeURIComponent(study)}/overview`;
    } catch (problem) { error.textContent = problem.message; }
  }
  fill(answer, answerCard(null, "The best settings then"));
  await ask();
  get(at(study, "/result")).then((found) => { worth = found.sensitivities; }).catch(() => {}); // an estimate is then left out
  addEventListener("resize", redraw);
  return () => removeEventListener("resize", redraw);
}
