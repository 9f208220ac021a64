// All trials of a study as a table; what is sorted, searched, hidden and opened stands in the address.
import { at, get } from "./api.js";
import { errorOf, fill, h, num, span, when } from "./dom.js";
import { follow, title } from "./study.js";

const STATES = { told: "measured", partial: "in part", asked: "open", failed: "failed", withdrawn: "withdrawn" };
const MOST_OUTPUTS = 12; // columns of outputs
const PAGE = 200; // rows at first
const FINE = 1e-3; // of a range: what is finer is left out of a setting

export async function trialsPage(page, study) {
  const head = h("div"), place = h("div", { class: "card frozen", tabindex: 0, role: "region", "aria-label": "All trials" }), count = h("span", { class: "dim", role: "status" });
  const view = readView(), hidden = new Set(view.hide), opened = new Set(view.open.map(Number));
  let rows = [], about = null, shown = PAGE;
  const state = Object.assign(h("select", { onchange: draw }, h("option", { value: "" }, "all"), Object.entries(STATES).map(([key, text]) => h("option", { value: key }, text))), { value: view.state });
  const words = h("input", { type: "search", placeholder: "notes, reasons, people", value: view.q, oninput: draw });
  const boxes = h("div", { class: "row" });
  const download = (ending, text) => h("a", { class: "button", href: at(study, `/export.${ending}`) }, text);
  fill(page, head, h("div", { class: "row noprint" }, h("label", {}, "State", state), h("label", {}, "Search", words), h("details", { class: "columns" }, h("summary", {}, "Columns"), boxes), count, download("csv", "CSV"), download("xlsx", "Excel"), download("json", "Everything (JSON)")), place);

  function keep() {
    const now = { sort: view.sort, down: view.down ? "1" : "0", state: state.value, q: words.value, hide: [...hidden].join(","), open: [...opened].join(",") };
    const given = new URLSearchParams(Object.entries(now).filter(([key, value]) => value && !(key === "sort" && value === "trial") && !(key === "down" && value === "1")));
    history.replaceState(null, "", `${location.hash.split("?")[0]}${[...given].length ? `?${given}` : ""}`);
  }

  function columns() {
    const values = digitsOf(rows.map((t) => t.value));
    return [
      { key: "state", text: "State", of: (t) => t.state, cell: (t) => h("span", { class: `tag ${t.state === "failed" ? "bad" : ""}` }, STATES[t.state] + (t.added ? ", older" : "")) },
      ...about.variables.map((v) => ({ key: `x.${v.name}`, text: v.name, unit: v.unit, kind: v.labels.length ? "" : "n", of: (t) => t.x[v.name], cell: (t) => setting(v, t.x[v.name]) + (t.asked && t.asked[v.name] !== t.x[v.name] ? ` (asked ${setting(v, t.asked[v.name])})` : "") })),
      ...about.outputs.slice(0, MOST_OUTPUTS).map((o) => ({ key: `y.${o.name}`, text: o.name, unit: o.unit, kind: "n", of: (t) => t.y[o.name], cell: (t) => num(t.y[o.name]) + errorOf(t, o.name) })),
      { key: "value", text: about.objective, unit: about.unit, kind: "n", of: (t) => t.value, cell: (t) => (t.value === null ? "–" : values(t.value)) },
      { key: "expected", text: "expected", kind: "n", of: (t) => t.expected?.[0], cell: (t) => (t.expected ? span(...t.expected) : "–") },
      { key: "feasible", text: "Limits", of: (t) => t.feasible, cell: (t) => (t.feasible === null ? "–" : h("span", { class: t.feasible ? "good" : "bad" }, t.feasible ? "met" : "not met")) },
      { key: "note", text: "Remarks", kind: "cut", of: remark, cell: remark },
      { key: "worker", text: "Who", of: (t) => t.worker, cell: (t) => t.worker },
      { key: "when", text: "When", kind: "time", of: (t) => t.settled_at || t.asked_at, cell: (t) => when(t.settled_at || t.asked_at) },
    ];
  }

  function draw() {
    if (!about) return;
    keep();
    const every = columns(), kinds = every.filter((each) => !hidden.has(each.key)), by = every.find((each) => each.key === view.sort) || { of: (t) => t.trial };
    if (boxes.childElementCount !== every.length) fill(boxes, every.map(({ key, text }) => h("label", { class: "line" }, h("input", { type: "checkbox", checked: !hidden.has(key), onchange: (e) => { hidden[e.target.checked ? "delete" : "add"](key); draw(); } }), text)));
    const wanted = words.value.toLowerCase();
    const found = rows.filter((t) => (!state.value || t.state === state.value) && (!wanted || [t.reason, t.why, t.worker, ...t.notes, ...t.amended].join(" ").toLowerCase().includes(wanted)));
    found.sort((a, b) => {
      const [p, q] = [by.of(a), by.of(b)];
      if (p === q) return a.trial - b.trial;
      if (p === null || p === undefined) return 1;
      return q === null || q === undefined ? -1 : (p < q ? -1 : 1) * (view.down ? -1 : 1);
    });
    count.textContent = `${found.length} of ${rows.length} trials`;
    const focused = document.activeElement?.dataset?.key;
    fill(place, h("table", { id: "trials" },
      h("thead", {}, h("tr", {}, [{ key: "trial", text: "Trial", kind: "n" }, ...kinds].map(heading))),
      h("tbody", {}, found.slice(0, shown).map((t) => [row(t, kinds), opened.has(t.trial) ? detail(t, kinds.length + 1) : null]))),
      found.length > shown ? h("p", {}, h("button", { onclick: () => { shown += 500; draw(); } }, `Show more (${found.length - shown} left)`)) : null);
    if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
  function heading({ key, text, kind, unit }) {
    const isBy = key === view.sort;
    return h("th", { class: kind, scope: "col", "aria-sort": isBy ? (view.down ? "descending" : "ascending") : undefined },
      h("button", { "data-key": `sort ${key}`, onclick: () => { view.down = isBy ? !view.down : false; view.sort = key; draw(); } }, text, isBy ? (view.down ? " ↓" : " ↑") : "", unit ? h("span", { class: "unit" }, unit) : null));
  }
  function row(t, kinds) {
    const isOpen = opened.has(t.trial), kind = t.state === "asked" || t.state === "partial" ? "open" : t.state === "told" ? "" : "off";
    const toggle = () => { opened[isOpen ? "delete" : "add"](t.trial); draw(); };
    return h("tr", { class: kind }, h("th", { scope: "row", class: "n" }, h("button", { "data-key": `row ${t.trial}`, "aria-expanded": String(isOpen), "aria-label": `Trial ${t.trial}, more`, onclick: toggle }, `${isOpen ? "▾" : "▸"} ${t.trial}`)),
      kinds.map((each) => h("td", { class: each.kind, title: each.kind === "cut" ? each.of(t) : undefined }, each.cell(t))));
  }

  // What a row shows when it is opened: why it was asked, expected against measured, and what happened to it.
  function detail(t, width) {
    const events = h("ul", { class: "plain small" }, h("li", { class: "dim" }, "Loading its history …"));
    get(at(study, `/history?trial=${t.trial}`)).then((list) => fill(events, list.map((each) => h("li", {}, h("span", { class: "dim" }, when(each.made)), ` ${each.worker}: ${each.what}`)))).catch((problem) => fill(events, h("li", { class: "bad" }, problem.message)));
    const unit = (name) => about.outputs.find((each) => each.name === name)?.unit, foretold = Object.entries(t.foretold || {});
    const compared = ([name, [low, , high]]) => {
      const told = t.y[name], isIn = told >= low && told <= high;
      return h("tr", {}, h("td", {}, name), h("td", { class: "n" }, span(low, high)), h("td", { class: "n" }, told === undefined ? "–" : num(told), unit(name) ? ` ${unit(name)}` : ""), h("td", { class: isIn || typeof told !== "number" ? "good" : "warn" }, typeof told !== "number" ? "" : isIn ? "as expected" : "unexpected"));
    };
    return h("tr", { class: "detail" }, h("td", { colspan: width }, h("div", { class: "inside" },
      h("div", {}, h("h2", {}, "Why it was asked"), h("p", {}, t.why, t.campaign ? ` · campaign ${t.campaign}` : "", t.block ? ` · block ${t.block}` : ""), t.reason ? h("p", { class: "bad" }, t.reason, t.not_the_settings ? " (not the settings)" : "") : null),
      foretold.length ? h("div", {}, h("h2", {}, "Expected and measured"), h("table", {}, h("thead", {}, h("tr", {}, ["Output", "Expected", "Measured", ""].map((text, k) => (text ? h("th", { scope: "col", class: k ? "n" : "" }, text) : h("td"))))), h("tbody", {}, foretold.map(compared)))) : null,
      h("div", {}, h("h2", {}, "History"), events))));
  }
  return follow(study, { onChange(now, trials) { about = now; rows = trials; fill(head, title(now)); draw(); } });
}

function readView() {
  const given = new URLSearchParams(location.hash.split("?")[1] || ""), list = (word) => (given.get(word) || "").split(",").filter(Boolean);
  return { sort: given.get("sort") || "trial", down: given.get("down") !== "0", state: given.get("state") || "", q: given.get("q") || "", hide: list("hide"), open: list("open") };
}

const remark = (t) => [t.reason, ...t.notes, ...t.amended, t.campaign ? `campaign ${t.campaign}` : "", t.block ? `block ${t.block}` : ""].filter(Boolean).join("; ");

// A setting with the digits that its range gives a meaning; listed values as they are.
function setting(v, value) {
  if (typeof value !== "number" || v.levels.length) return num(value, 9);
  const step = FINE * (v.log ? value : v.hi - v.lo);
  return num(Number(value.toFixed(Math.min(12, Math.max(0, -Math.floor(Math.log10(step)))))), 9);
}

// How computed numbers are written: a thousandth of their spread is the last digit.
function digitsOf(values) {
  const known = values.filter((each) => each !== null), step = (Math.max(...known) - Math.min(...known)) / 1000;
  return step > 0 && Number.isFinite(step) ? (value) => num(Number(value.toFixed(Math.min(12, Math.max(0, -Math.floor(Math.log10(step)))))), 9) : (value) => num(value, 6);
}
