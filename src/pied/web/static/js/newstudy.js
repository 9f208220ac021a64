// A new study by form: formulas are checked while they are typed, by the server that will read the file.
import { post } from "./api.js";
import { fill, h, say } from "./dom.js";

export function newPage(page, app) {
  const form = { name: "", sense: "maximize", objective: "", called: "", unit: "", variables: [{}, {}], outputs: [{}], limits: [{}], constants: [{}] };
  const state = h("div", { "aria-live": "polite" }), button = h("button", { class: "main", id: "create", onclick: create, disabled: true }, "Make the study");
  let timer, fields = new Map(), touched = false;
  const input = (target, key, label, more = {}) => {
    const made = h("input", { value: target[key] ?? "", autocomplete: "off", ...more, oninput: (e) => { target[key] = e.target.value; touched = true; later(); } });
    return { made, label: h("label", {}, label, made) };
  };
  const rows = (word, heading, text, cells) => {
    const place = h("div");
    const draw = () => fill(place, form[word].map((row, k) => h("div", { class: "formrow" }, cells(row, draw), h("button", { type: "button", class: "tiny", "aria-label": `Remove row ${k + 1} of ${heading}`, onclick: () => { form[word].splice(k, 1); draw(); later(); } }, "×"))), h("button", { type: "button", class: "tiny", onclick: () => { form[word].push({}); draw(); place.querySelectorAll(".formrow:last-of-type input")[0]?.focus(); } }, "One more"));
    draw();
    return h("section", { class: "card", "data-part": word }, h("h2", {}, heading), h("p", { class: "small dim" }, text), place);
  };
  const name = input(form, "name", "Name of the study", { placeholder: "coffee", name: "name" }), objective = input(form, "objective", "Formula", { class: "formula", placeholder: "price * strength - 0.1 * time", name: "objective" });
  fill(page, h("h1", {}, "New study"), h("p", { class: "lead" }, "What you know is written as formulas; what you do not know is measured. The form becomes a problem file that the shell reads, too."),
    h("form", { onsubmit: (e) => { e.preventDefault(); create(); } },
      h("section", { class: "card" }, h("div", { class: "row" }, name.label), h("h2", {}, "What you want"), h("div", { class: "row" }, h("label", {}, "Goal", h("select", { onchange: (e) => { form.sense = e.target.value; later(); } }, h("option", { value: "maximize" }, "maximize"), h("option", { value: "minimize" }, "minimize"))), objective.label, input(form, "called", "called", { placeholder: "profit" }).label, input(form, "unit", "unit", { placeholder: "EUR/h" }).label)),
      rows("variables", "What can be set", "A name and its smallest and largest value; for a choice the labels, with commas.", (row, draw) => [input(row, "name", "name", { name: "variable" }).label, h("label", {}, "kind", Object.assign(h("select", { onchange: (e) => { row.kind = e.target.value; draw(); later(); } }, h("option", { value: "" }, "any value"), h("option", { value: "integer" }, "whole numbers"), h("option", { value: "choice" }, "a choice")), { value: row.kind || "" })), row.kind === "choice" ? input(row, "labels", "labels", { placeholder: "MeCN, DMF", class: "formula" }).label : [input(row, "lo", "from", { class: "number short" }).label, input(row, "hi", "to", { class: "number short" }).label, input(row, "unit", "unit", { class: "short" }).label, row.kind ? null : h("label", { class: "line" }, h("input", { type: "checkbox", checked: row.log, onchange: (e) => { row.log = e.target.checked; later(); } }), "powers of ten")]]),
      rows("outputs", "What is measured", "Noise is the standard deviation of a measurement: 0 if it is exact, empty to have it learned.", (row) => [input(row, "name", "name", { name: "output" }).label, input(row, "unit", "unit", { class: "short" }).label, input(row, "lo", "at least", { class: "number short" }).label, input(row, "hi", "at most", { class: "number short" }).label, input(row, "noise", "noise", { class: "number short" }).label]),
      rows("limits", "What must hold", "A name and a comparison, for instance impurity <= 0.06.", (row) => [input(row, "name", "name").label, input(row, "formula", "formula", { class: "formula", placeholder: "impurity <= 0.06" }).label]),
      rows("constants", "Prices and other constants", "Numbers for the formulas; each gets a slider under “What if”.", (row) => [input(row, "name", "name").label, input(row, "value", "value", { class: "number short" }).label]),
      h("section", { class: "card" }, state, h("div", { class: "row" }, button))));
  fields = new Map([["maximize", objective.made], ["minimize", objective.made], ["name", name.made]]);
  function later() { clearTimeout(timer); timer = setTimeout(check, 250); }
  async function check() {
    try {
      const found = await post("/api/check", form);
      button.disabled = !found.ok || app.read_only;
      fields.forEach((each) => each.removeAttribute("aria-invalid"));
      if (!found.ok && touched) fields.get(found.path[0])?.setAttribute("aria-invalid", "true");
      const where = found.path?.length ? `${found.path.filter((each) => !/^\d+$/.test(each)).join(", ").replace("subject_to", "limits")}: ` : "";
      fill(state, found.ok ? [h("p", { class: "good" }, "This can be used. It is understood as:"), h("pre", {}, found.understood.join("\n"))] : touched ? h("p", { class: "error", id: "form-error" }, where + found.error) : h("p", { class: "dim" }, "Fill in the form; it is checked while you type."));
      return found.ok;
    } catch (problem) { fill(state, h("p", { class: "error" }, problem.message)); return false; }
  }
  async function create() {
    touched = true;
    if (!(await check())) return;
    try { const made = await post("/api/studies", form); say(`${made.file} is written.`); location.hash = `#/s/${encodeURIComponent(made.id)}/work`; }
    catch (problem) { fill(state, h("p", { class: "error" }, problem.message)); }
  }
  check();
  return () => clearTimeout(timer);
}
