// One study, live: the recommendation, the course, and all trials.
import { at, get } from "./api.js";
import { chart, chartCard } from "./charts.js";
import { errorOf, fill, h, num, span, united, when } from "./dom.js";
import { frontCard } from "./front.js";
import { statusTag } from "./studies.js";

// Follow a study: `onChange(study, trials)` after every change, `onResult(result)` when the recommendation is computed.
export async function follow(study, { onChange, onResult, onReload }) {
  const trials = new Map(), all = () => [...trials.values()].sort((a, b) => a.trial - b.trial);
  let about = null, newest = 0, loading = false;
  async function load() {
    for (let turn = 0; turn < 5; turn++) { // what has changed meanwhile is in the next answer
      about = await get(at(study));
      const list = await get(at(study, "/trials"));
      trials.clear();
      list.forEach((each) => trials.set(each.trial, each));
      if (about.change >= newest) return;
    }
  }
  async function reload() {
    if (loading) return;
    loading = true;
    try { await load(); onReload?.(about); onChange?.(about, all()); } catch { /* the stream comes back with the server, and this with it */ }
    loading = false;
  }
  await load();
  onChange?.(about, all());
  const source = new EventSource(at(study, "/events"));
  let first = true;
  source.addEventListener("study", (event) => { const now = JSON.parse(event.data); newest = now.change; if (!first || now.change !== about.change) reload(); first = false; });
  source.addEventListener("reload", reload);
  source.addEventListener("change", (event) => {
    const { trials_changed: changed, reload: isOther, ...now } = JSON.parse(event.data);
    newest = now.change;
    if (loading) return; // the loop above loads this, too
    if (isOther) { reload(); return; }
    about = { ...about, ...now };
    changed.forEach((each) => trials.set(each.trial, each));
    onChange?.(about, all());
  });
  source.addEventListener("result", (event) => onResult?.(JSON.parse(event.data)));
  return () => source.close();
}

export function title(about) {
  return [h("h1", {}, about.name, " ", statusTag(about.status)), h("p", { class: "lead" }, `${about.question}${about.unit && !(about.objectives?.length > 1) ? ` [${about.unit}]` : ""} · ${about.counted}${about.questions > 1 ? ` · question ${about.questions}` : ""}`),
    about.damage ? h("p", { class: "error" }, about.damage) : null];
}

export function answerCard(result, heading = "Recommended settings") {
  if (!result) return h("section", { class: "card answer" }, h("h2", {}, heading), h("p", { class: "dim" }, "Computing …"));
  if (result.error) return h("section", { class: "card answer" }, h("h2", {}, heading), h("p", {}, result.error));
  return h("section", { class: "card answer", id: "answer" }, h("h2", {}, heading),
    result.x ? h("div", { class: "value" }, result.value_text) : null,
    result.x ? h("dl", { class: "pairs" }, result.settings.map((each) => [h("dt", {}, each.name), h("dd", {}, each.text)])) : null,
    result.limits.length ? h("ul", { class: "plain" }, result.limits.map((each) => h("li", { class: each.met ? "" : "bad" }, h("span", { class: `mark ${each.met ? "good" : "bad"}`, "aria-hidden": "true" }, each.met ? "✓" : "✗"), each.text))) : null,
    result.worth.length ? h("ul", { class: "plain small" }, result.worth.map((each) => h("li", {}, each))) : null,
    result.gap_text ? h("p", {}, result.gap_text) : null, result.care ? h("p", { class: "note" }, result.care) : null, result.remarks.map((each) => h("p", { class: "note" }, each)),
    h("p", { class: "dim small" }, result.message));
}

export async function overviewPage(page, study, about) {
  const head = h("div"), answer = h("div"), question = h("section", { class: "card" });
  const values = chartCard("Value by trial", "Each measured trial, and the best so far that meets all limits.", [["dot", "meets all limits"], ["dot bad", "breaks a limit"], ["line", "best so far"]]);
  const gaps = chartCard("How much better is still possible", "After each trial, on a logarithmic scale."), still = h("p");
  gaps.card.append(still);
  let asked = null, list = [], latest = null;
  function drawGaps() { // the last point is that of the answer, in its words
    const known = latest && latest.change === asked?.change ? latest : null;
    const shown = list.map((each, k) => [each.trial, k < list.length - 1 ? each.gap : known?.gap]).filter(([, gap]) => gap > 0);
    still.textContent = !list.length ? "" : known ? known.gap_text || (known.feasible ? "" : "No settings are known to meet all limits.") : "Computing …";
    if (shown.length) chart(gaps.place, { x: "trial", y: "gap", unit: asked.unit, log: true, data: [shown.map(([trial]) => trial), shown.map(([, gap]) => gap)], series: [{ label: "gap", kind: "line", color: "blue" }] });
    else fill(gaps.place);
  }
  const margins = h("section", { class: "card" }), front = frontCard();
  fill(page, head, h("div", { class: "two" }, answer, question), front.card, h("div", { class: "two" }, values.card, gaps.card), margins,
    h("p", {}, about.read_only ? null : h("a", { class: "button", href: `#/s/${encodeURIComponent(study)}/work` }, "Ask and tell"), " ", h("a", { class: "button", href: at(study, "/report.html"), target: "_blank", rel: "noopener" }, "Report")));
  fill(answer, answerCard(null));
  const stop = await follow(study, {
    onChange(now, trials) {
      const isFront = now.objectives.length > 1;
      fill(head, title(now));
      gaps.card.hidden = isFront; // what is still possible is in the picture of the front
      if (isFront) values.name.textContent = `${now.objective} by trial`;
      fill(question, h("h2", {}, "The question"), h("pre", {}, now.statement.join("\n")), now.notes.length ? h("p", { class: "small" }, `Last note: ${now.notes.at(-1)}`) : null);
      if (!trials.length) fill(answer, h("section", { class: "card answer" }, h("h2", {}, "Nothing is recorded yet"), h("p", {}, "Ask for a first proposal, or add older data, under “Work”.")));
      drawValues(values.place, now, trials);
      asked = now; list = trials; drawGaps();
      fill(margins, marginTable(now, trials));
    },
    onResult(result) { latest = result; drawGaps(); fill(answer, answerCard(result, result.front?.points?.length > 1 ? `Balanced settings, one of ${result.front.points.length} best trade-offs` : undefined)); front.show(result.front); },
  });
  return () => { stop(); front.end(); };
}

function drawValues(place, about, trials) {
  const shown = trials.filter((each) => each.value !== null);
  if (!shown.length) return fill(place, h("p", { class: "dim" }, "Nothing is measured yet."));
  let best = null;
  const so = shown.map((each) => { if (each.feasible && (best === null || (about.minimizes ? each.value < best : each.value > best))) best = each.value; return best; });
  chart(place, { x: "trial", y: about.objective, unit: about.unit,
    data: [shown.map((e) => e.trial), so, shown.map((e) => (e.feasible ? e.value : null)), shown.map((e) => (e.feasible ? null : e.value))],
    series: [{ label: "best", kind: "steps", color: "blue" }, { label: "meets all limits", kind: "points", color: "blue" }, { label: "breaks a limit", kind: "points", color: "red" }] });
}

function marginTable(about, trials) {
  if (!about.limits.length) return [h("h2", {}, "Limits"), h("p", { class: "dim" }, "There are no limits.")];
  const best = about.best && trials.find((each) => each.trial === about.best.trial);
  const told = trials.filter((each) => each.margins.length && each.state === "told");
  return [h("h2", {}, "Limits"), h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "Limit"), h("th", { class: "n" }, "Must be"), h("th", { class: "n" }, best ? `Best (trial ${best.trial})` : "Best"), h("th", { class: "n" }, "Margin"), h("th", { class: "n" }, "Met by"))),
    h("tbody", {}, about.limits.map((each, place) => {
      const margin = best ? best.margins[place] : null;
      const value = margin === null || each.value === undefined ? null : each.sign === "<=" ? each.value - margin : each.value + margin;
      return h("tr", {}, h("td", {}, each.quantity || each.name), h("td", { class: "n" }, each.sign ? united(`${each.sign === "<=" ? "≤" : "≥"} ${num(each.value)}`, each.unit) : "≥ 0"), h("td", { class: "n" }, value === null ? "–" : united(num(value), each.unit)), h("td", { class: `n ${margin < 0 ? "bad" : ""}` }, num(margin, 3)), h("td", { class: "n" }, `${told.filter((t) => t.margins[place] >= 0).length} of ${told.length}`));
    }))))];
}

// ------------------------------------------------------------------------------------------------------------- trials

const STATES = { told: "measured", partial: "in part", asked: "open", failed: "failed", withdrawn: "withdrawn" };

export async function trialsPage(page, study) {
  const head = h("div"), place = h("div", { class: "card wide" }), count = h("span", { class: "dim" });
  let rows = [], about = null, sort = { key: "trial", down: true }, shown = 200;
  const state = h("select", { onchange: draw }, h("option", { value: "" }, "all"), Object.entries(STATES).map(([key, text]) => h("option", { value: key }, text)));
  const words = h("input", { type: "search", placeholder: "search notes, reasons, people", oninput: draw });
  fill(page, head, h("div", { class: "row noprint" }, h("label", {}, "State", state), h("label", {}, "Search", words), count, h("a", { class: "button", href: at(study, "/export.csv") }, "CSV"), h("a", { class: "button", href: at(study, "/export.xlsx") }, "Excel"), h("a", { class: "button", href: at(study, "/export.json") }, "Everything (JSON)")), place);
  function columns() {
    const unit = (each) => (each.unit ? ` [${each.unit}]` : "");
    return [
      ["trial", "Trial", "n", (t) => t.trial, (t) => t.trial], ["state", "State", "", (t) => t.state, (t) => h("span", { class: `tag ${t.state === "failed" ? "bad" : ""}` }, STATES[t.state] + (t.added ? ", older" : ""))],
      ...about.variables.map((each) => [`x.${each.name}`, each.name + unit(each), each.labels.length ? "" : "n", (t) => t.x[each.name], (t) => num(t.x[each.name]) + (t.asked && t.asked[each.name] !== t.x[each.name] ? ` (asked ${num(t.asked[each.name])})` : "")]),
      ...about.outputs.slice(0, 12).map((each) => [`y.${each.name}`, each.name + unit(each), "n", (t) => t.y[each.name], (t) => num(t.y[each.name]) + errorOf(t, each.name)]),
      ["value", about.objective + unit(about), "n", (t) => t.value, (t) => num(t.value, 6)],
      ["expected", "expected", "n", (t) => t.expected?.[0], (t) => (t.expected ? span(...t.expected) : "–")],
      ["feasible", "Limits", "", (t) => t.feasible, (t) => (t.feasible === null ? "–" : t.feasible ? h("span", { class: "good" }, "met") : h("span", { class: "bad" }, "not met"))],
      ["why", "Why, notes, corrections", "", (t) => t.why, (t) => [t.block ? h("div", { class: "small" }, `Block ${t.block}`) : null, t.reason ? h("div", { class: "bad" }, t.reason, t.not_the_settings ? h("span", { class: "dim" }, " (not the settings)") : null) : null, h("div", { class: "small dim" }, t.why), t.amended.map((text) => h("div", { class: "small warn" }, text)), t.notes.map((text) => h("div", { class: "small" }, `Note: ${text}`))]],
      ["worker", "Who", "", (t) => t.worker, (t) => t.worker], ["settled_at", "When", "", (t) => t.settled_at || t.asked_at, (t) => when(t.settled_at || t.asked_at)],
    ];
  }
  function draw() {
    if (!about) return;
    const kinds = columns(), by = kinds.find(([key]) => key === sort.key) || kinds[0], wanted = words.value.toLowerCase();
    const found = rows.filter((t) => (!state.value || t.state === state.value) && (!wanted || [t.reason, t.why, t.worker, ...t.notes, ...t.amended].join(" ").toLowerCase().includes(wanted)));
    const order = (a, b) => { const [p, q] = [by[3](a), by[3](b)]; if (p === q) return a.trial - b.trial; if (p === null || p === undefined) return 1; if (q === null || q === undefined) return -1; return (p < q ? -1 : 1) * (sort.down ? -1 : 1); };
    found.sort(order);
    count.textContent = `${found.length} of ${rows.length} trials`;
    fill(place, h("table", { id: "trials" }, h("thead", {}, h("tr", {}, kinds.map(([key, text, kind]) => h("th", { class: kind, scope: "col", "aria-sort": key === sort.key ? (sort.down ? "descending" : "ascending") : undefined },
      h("button", { onclick: () => { sort = { key, down: key === sort.key ? !sort.down : false }; draw(); } }, text, key === sort.key ? (sort.down ? " ↓" : " ↑") : ""))))),
      h("tbody", {}, found.slice(0, shown).map((t) => h("tr", { class: t.state === "asked" || t.state === "partial" ? "open" : t.state === "told" ? "" : "off" }, kinds.map(([key, , kind, , cell]) => h("td", { class: key === "why" ? "why" : kind }, cell(t))))))),
      found.length > shown ? h("p", {}, h("button", { onclick: () => { shown += 500; draw(); } }, `Show more (${found.length - shown} left)`)) : null);
  }
  return follow(study, { onChange(now, trials) { about = now; rows = trials; fill(head, title(now)); draw(); } });
}
