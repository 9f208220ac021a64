// One study, live, and what several of its pages show: its title and its answer.
import { at, get } from "./api.js";
import { h } from "./dom.js";
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

// A limit as a bar: the allowed side, where the quantity probably is, and the limit.
function limitBar(bar) {
  if (!bar || bar.value === null) return null;
  const marks = [bar.value, ...bar.ends, ...bar.usual, ...bar.limits.map((each) => each.value)].filter(Number.isFinite);
  const room = 0.05 * (Math.max(...marks) - Math.min(...marks)) || Math.abs(marks[0]) || 1;
  const low = Math.min(...marks) - room, wide = Math.max(...marks) + room - low;
  const part = (kind, from, to = from) => {
    const made = h("i", { class: kind }), [a, b] = [from, to].map((each) => 100 * Math.min(1, Math.max(0, (each - low) / wide)));
    made.style.left = `${a}%`;
    if (to !== from) made.style.width = `${b - a}%`;
    return made;
  };
  const upper = Math.min(...bar.limits.filter((each) => each.sign === "<=").map((each) => each.value), Infinity);
  const lower = Math.max(...bar.limits.filter((each) => each.sign === ">=").map((each) => each.value), -Infinity);
  return h("span", { class: "limitbar", "aria-hidden": "true" },
    part("allowed", Math.max(lower, low), Math.min(upper, low + wide)),
    bar.ends.every(Number.isFinite) && bar.ends[1] > bar.ends[0] ? part("band", ...bar.ends) : null,
    bar.limits.map((each) => part("end", each.value)), part("here", bar.value));
}

// The answer as one card: settings, value, each limit with its margin, what is still possible, what to do next, and why.
export function answerCard(result, heading = "Recommended settings", next = null) {
  if (!result) return h("section", { class: "card answer" }, h("h2", {}, heading), h("p", { class: "dim" }, "Computing …"));
  if (result.error) return h("section", { class: "card answer" }, h("h2", {}, heading), h("p", {}, result.error));
  const limits = result.limits.map((each) => h("li", { class: each.met ? "" : "bad" },
    h("span", { class: `mark ${each.met ? "good" : "bad"}`, "aria-hidden": "true" }, each.met ? "✓" : "✗"), each.text, limitBar(each.bar)));
  return h("section", { class: "card answer", id: "answer" }, h("h2", {}, heading),
    result.status === "RUNNING" && result.feasible ? null : h("p", {}, result.message),
    result.x ? h("p", { class: "value" }, result.value_text) : null,
    h("div", { class: "halves" },
      result.x ? h("dl", { class: "pairs settings" }, result.settings.map((each) => [h("dt", {}, each.name), h("dd", {}, each.text)])) : null,
      limits.length ? h("ul", { class: "plain limits" }, limits) : null),
    result.gap_text ? h("p", { class: "still" }, `${result.gap_text[0].toUpperCase()}${result.gap_text.slice(1)}.`) : null,
    next, result.why ? h("p", { class: "dim small" }, result.why) : null,
    result.care ? h("p", { class: "note" }, result.care) : null, result.remarks.map((each) => h("p", { class: "note" }, each)),
    result.worth.length ? h("details", { class: "small" }, h("summary", {}, "What limits and constants are worth"), h("ul", { class: "plain" }, result.worth.map((each) => h("li", {}, each)))) : null);
}
