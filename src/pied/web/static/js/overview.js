// The overview of a study: the answer first, then the question and how the study went.
import { at } from "./api.js";
import { bars, chart, chartCard } from "./charts.js";
import { fill, h, num, united } from "./dom.js";
import { frontCard } from "./front.js";
import { policyCard } from "./observed.js";
import { answerCard, follow, title } from "./study.js";

const MOST_COURSES = 6; // limits whose course is drawn

export async function overviewPage(page, study, about) {
  const head = h("div"), answer = h("div"), question = h("div", { class: "two" }), margins = h("section", { class: "card" }), courses = h("div", { class: "grid" });
  const values = chartCard("Value by trial", "Bars show what was expected when a trial was asked for.", [["dot", "meets all limits"], ["dot bad", "breaks a limit"], ["line", "best so far"], ["band", "expected"], ["dot ring", "recommended"]]);
  const gaps = chartCard("How much better is still possible", "After each trial, on a logarithmic scale."), front = frontCard(), policy = policyCard(study);
  const link = (to, text) => h("a", { class: "button", href: `#/s/${encodeURIComponent(study)}/${to}` }, text);
  let now = null, list = [], latest = null;
  fill(page, head, answer, front.card, policy.card, h("div", { class: "two" }, values.card, gaps.card), courses, question, margins,
    h("p", {}, about.read_only ? null : link("work", "Ask and tell"), " ", h("a", { class: "button", href: at(study, "/report.html"), target: "_blank", rel: "noopener" }, "Report")));
  fill(answer, answerCard(null));

  function drawAnswer() {
    if (!list.length) return fill(answer, h("section", { class: "card answer" }, h("h2", {}, "Nothing is recorded yet"), next(now, list, link)));
    const points = latest?.front?.points?.length;
    fill(answer, answerCard(latest, points > 1 ? `Balanced settings, one of ${points} best trade-offs` : undefined, next(now, list, link)));
  }
  function draw() {
    const isFront = now.objectives.length > 1, known = latest && latest.change === now.change ? latest : null;
    // the last gap is that of the answer
    const shown = list.map((each, k) => [each.trial, k < list.length - 1 ? each.gap : known?.gap]).filter(([, gap]) => gap > 0);
    gaps.card.hidden = isFront || shown.length < 2; // what is still possible is in the picture of the front
    if (isFront) values.name.textContent = `${now.objective} by trial`;
    drawValues(values.place, now, list, latest);
    if (!gaps.card.hidden) chart(gaps.place, { x: "trial", y: "gap", unit: now.unit, log: true, whole: true, data: [shown.map(([trial]) => trial), shown.map(([, gap]) => gap)], series: [{ label: "gap", kind: "line", color: "blue" }] });
    drawCourses(courses, now, list);
  }
  const stop = await follow(study, {
    onChange(about, trials) {
      now = about; list = trials;
      fill(head, title(now));
      policy.update(now);
      fill(question, settingsCard(now, now.file?.endsWith(".toml") ? link("question", "Change the question") : null), outputsCard(now));
      fill(margins, marginTable(now, list));
      drawAnswer(); draw();
    },
    onResult(result) { latest = result; drawAnswer(); draw(); front.show(result.front); },
  });
  return () => { stop(); front.end(); };
}

// What to do next, in a sentence with the link that does it.
function next(about, trials, link) {
  const open = trials.filter((each) => !each.added && (each.state === "asked" || each.state === "partial")).map((each) => each.trial);
  const said = {
    INFEASIBLE: ["Next: see what a looser limit would bring.", link("what-if", "What if")],
    GAP_REACHED: ["Next: use these settings; the gap that was asked for is reached.", null],
    DONE: ["Next: use these settings; nothing else can be better.", null],
    FINISHED: ["The budget is spent: use these settings, or ask for more.", link("work", "Ask")],
  }[about.status];
  if (said && !open.length) return h("p", { class: "next" }, said[0], " ", said[1]);
  const which = open.length > 5 ? `the ${open.length} open trials` : `trial ${open.join(", ")}`;
  return open.length ? h("p", { class: "next" }, `Next: measure ${which}, and tell what was found. `, link("work", "Tell"))
    : h("p", { class: "next" }, trials.length ? "Next: ask for the next trial. " : "Ask for a first proposal, or add older data. ", link("work", "Ask"));
}

function drawValues(place, about, trials, result) {
  const shown = trials.filter((each) => each.value !== null || each.expected);
  if (!shown.some((each) => each.value !== null)) return fill(place, h("p", { class: "dim" }, "Nothing is measured yet."));
  let best = null;
  const so = shown.map((each) => {
    if (each.value !== null && each.feasible && (best === null || (about.minimizes ? each.value < best : each.value > best))) best = each.value;
    return best;
  });
  const told = (isMet) => shown.map((each) => (each.value !== null && Boolean(each.feasible) === isMet ? each.value : null));
  const last = trials.at(-1).trial + 1, ends = result?.x && result.bounds ? Object.values(result.bounds)[0] : null, isNow = ends && Number.isFinite(result.value);
  const expected = shown.filter((each) => each.expected).map((each) => [each.trial, ...each.expected]);
  const one = (list, value) => [...list, ...(isNow ? [value] : [])];
  // unusually bad values and wide ranges leave the picture, so that the good ones can be told apart
  const seen = shown.map((each) => each.value).filter((each) => each !== null).sort((a, b) => a - b), far = [seen[0], seen.at(-1)];
  const room = 0.15 * (far[1] - far[0] || Math.abs(far[0]) || 1), ys = [Math.min(far[0], isNow ? result.value : far[0]) - room, Math.max(far[1], isNow ? result.value : far[1]) + room];
  chart(place, { x: "trial", y: about.objective, unit: about.unit, whole: true, range: ys,
    data: [one(shown.map((e) => e.trial), last), one(so, null), one(told(true), null), one(told(false), null), one(shown.map(() => null), result?.value)],
    series: [{ label: "best", kind: "steps", color: "blue" }, { label: "meets all limits", kind: "points", color: "blue" }, { label: "breaks a limit", kind: "points", color: "red" }, { label: "recommended", kind: "points", color: "text", size: 10, hollow: true }],
    hooks: { drawAxes: [bars([...expected, ...(isNow ? [[last, ...ends]] : [])])] } });
}

// How each limited quantity went, with its limit.
function drawCourses(place, about, trials) {
  const told = trials.filter((each) => each.margins.length && each.state === "told");
  const limits = about.limits.map((each, k) => ({ ...each, k })).filter((each) => each.value !== undefined).slice(0, MOST_COURSES);
  if (!limits.length || !told.length) return fill(place);
  const cards = limits.map((each) => ({ each, ...chartCard(united(`${each.quantity} ${each.sign === "<=" ? "≤" : "≥"} ${num(each.value)}`, each.unit), "") }));
  fill(place, cards.map(({ card }) => card));
  for (const { each, place: spot } of cards) {
    const value = (t) => (t.margins[each.k] === null ? null : each.sign === "<=" ? each.value - t.margins[each.k] : each.value + t.margins[each.k]);
    const values = told.map(value), isMet = told.map((t) => t.margins[each.k] >= 0 || t.feasible);
    chart(spot, { x: "trial", y: each.quantity, unit: each.unit, whole: true, height: 170,
      data: [told.map((t) => t.trial), values.map((v, k) => (isMet[k] ? v : null)), values.map((v, k) => (isMet[k] ? null : v)), values.map(() => each.value)],
      series: [{ label: "met", kind: "points", color: "blue", size: 6 }, { label: "not met", kind: "points", color: "red", size: 6 }, { label: "limit", kind: "line", color: "red", dash: [6, 4], width: 1.5 }] });
  }
}

const rows = (head, body) => h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": head.filter(Boolean).join(", ") }, h("table", {}, h("thead", {}, h("tr", {}, head.map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, body)));

function settingsCard(about, change) {
  const goal = (each) => h("p", {}, h("strong", {}, `${each.sense} ${united(each.name, each.unit && `[${each.unit}]`)}`), each.formula && each.formula !== each.name ? [" = ", h("code", {}, each.formula)] : null);
  return h("section", { class: "card" }, h("h2", {}, "The question"), about.goals.map(goal),
    rows(["Setting", "Range"], about.variables.map((each) => h("tr", {}, h("td", {}, each.name), h("td", {}, each.text)))),
    about.notes.length ? h("p", { class: "small" }, `Last note: ${about.notes.at(-1)}`) : null, change);
}

function outputsCard(about) {
  const noise = (each) => (each.noise === null ? "learned" : each.noise === 0 ? "exact" : num(each.noise));
  const range = ([low, high]) => (low === null && high === null ? "–" : low === null ? `≤ ${num(high)}` : high === null ? `≥ ${num(low)}` : `${num(low)} to ${num(high)}`);
  return h("section", { class: "card" }, h("h2", {}, "What is measured"),
    rows(["Output", "Unit", "Possible", "Noise"], about.outputs.map((each) => h("tr", {}, h("td", {}, each.name), h("td", {}, each.unit || "–"), h("td", {}, range(each.range)), h("td", {}, noise(each))))),
    about.outputs.some((each) => each.noise === null) ? h("p", { class: "small dim" }, "Noise is the standard deviation of a measurement; say 0 where the same settings always give the same value.") : null,
    about.constants.length ? [h("h3", {}, "Constants"), h("dl", { class: "pairs" }, about.constants.map((each) => [h("dt", {}, each.name), h("dd", {}, num(each.value, 9))]))] : null);
}

function marginTable(about, trials) {
  if (!about.limits.length) return [h("h2", {}, "Limits"), h("p", { class: "dim" }, "There are no limits.")];
  const best = about.best && trials.find((each) => each.trial === about.best.trial);
  const told = trials.filter((each) => each.margins.length && each.state === "told");
  return [h("h2", {}, "Limits"), rows(["Limit", "Must be", best ? `Best (trial ${best.trial})` : "Best", "Margin", "Met by"], about.limits.map((each, place) => {
    const margin = best ? best.margins[place] : null;
    const value = margin === null || each.value === undefined ? null : each.sign === "<=" ? each.value - margin : each.value + margin;
    return h("tr", {}, h("td", {}, each.name), h("td", {}, each.sign ? united(`${each.quantity} ${each.sign === "<=" ? "≤" : "≥"} ${num(each.value)}`, each.unit) : "margin ≥ 0"),
      h("td", {}, value === null ? "–" : united(num(value), each.unit)), h("td", { class: margin < 0 ? "bad" : "" }, num(margin, 3)), h("td", {}, `${told.filter((t) => t.margins[place] >= 0).length} of ${told.length}`));
  }))];
}
