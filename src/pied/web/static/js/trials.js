// All trials of a study as a table.
import { at } from "./api.js";
import { errorOf, fill, h, num, span, when } from "./dom.js";
import { follow, title } from "./study.js";

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
