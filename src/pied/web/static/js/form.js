// A question by form, new or changed: checked while it is typed, by the server that will read the file.
import { at, get, post, worker } from "./api.js";
import { fill, h, say } from "./dom.js";
import { title } from "./study.js";

// What a row of each kind has: name of the field, its label, and how it looks.
const NUMBER = { class: "number short" }, SHORT = { class: "short" }, LONG = { class: "formula" };
const UNIT = ["unit", "unit", SHORT], ENDS = [["lo", "from", NUMBER], ["hi", "to", NUMBER], UNIT];
const CHECKS = [["log", "powers of ten"], ["observed", "measured, not chosen"]];
const KINDS = {
  "": ["any value", [...ENDS, ["step", "in steps of", NUMBER], ["round", "or decimals", NUMBER]]],
  integer: ["whole numbers", ENDS],
  levels: ["listed values", [["levels", "values", { ...LONG, placeholder: "10, 15, 22" }], UNIT]],
  choice: ["a choice", [["labels", "labels", { ...LONG, placeholder: "MeCN, DMF" }], ["properties", "known of each label", { ...LONG, placeholder: "price: 3.1, 2.4; density: 0.79, 0.94" }]]],
  mixture: ["parts that add up", [["parts", "parts", { ...LONG, placeholder: "water, glycol, salt 0..0.2" }], ["total", "total", { ...NUMBER, placeholder: "1" }], UNIT]],
  file: ["as in a file", [["text", "as in a file", { ...LONG, placeholder: "{ lo = 70, hi = 100 }" }]]],
};
const SECTIONS = [
  ["goals", "What you want", "A formula; with more than one goal each has a name, and you get the best trade-offs.", [["formula", "formula", { ...LONG, placeholder: "price * strength - 0.1 * time", name: "objective" }], ["name", "called", { placeholder: "profit", name: "called" }], ["unit", "unit", { ...SHORT, placeholder: "EUR/h" }]]],
  ["variables", "What can be set", "Steps and decimals say which values your equipment can take.", null],
  ["outputs", "What is measured", "Noise is the standard deviation of a measurement: 0 if it is exact, empty to have it learned.", [["name", "name", { name: "output" }], UNIT, ["lo", "at least", NUMBER], ["hi", "at most", NUMBER], ["noise", "noise", NUMBER], ["lod", "detected from", NUMBER], ["resolution", "read in steps of", NUMBER]]],
  ["limits", "What must hold", "A comparison, for instance impurity <= 0.06, 0.4 <= pH <= 0.6, or pH = 7 with how near is near enough.", [["name", "name", {}], ["formula", "formula", { ...LONG, placeholder: "impurity <= 0.06" }], ["tolerance", "near enough", NUMBER]]],
  ["constants", "Prices and other constants", "Numbers for the formulas; each gets a slider under “What if”.", [["name", "name", {}], ["value", "value", NUMBER]]],
];
const EMPTY = { name: "", goals: [{}], variables: [{}, {}], outputs: [{}], limits: [{}], constants: [{}] };
const TABLES = { maximize: "goals", minimize: "goals", unit: "goals", mixtures: "variables", subject_to: "limits" };
const WORDS = { choices: "labels", integer: "lo", range: "lo", bounds: "parts" };

// The form: its element, its content, and `check`, which says whether it can be used.
function questionForm(form, { asks, onChecked }) {
  const state = h("div", { "aria-live": "polite" }), fields = new Map(); // row → its fields and its message
  let timer, touched = false;
  const later = () => { touched = true; clearTimeout(timer); timer = setTimeout(check, 250); };

  function field(row, [word, text, more]) {
    const made = h("input", { value: row[word] ?? "", autocomplete: "off", spellcheck: "false", ...more, oninput: (e) => { row[word] = e.target.value; later(); } });
    fields.get(row).inputs[word] = made;
    return h("label", {}, text, made);
  }
  function picked(row, text, word, options, draw) {
    return h("label", {}, text, Object.assign(h("select", { onchange: (e) => { row[word] = e.target.value; draw?.(row, "select"); later(); } }, options.map(([value, said]) => h("option", { value }, said))), { value: row[word] || options[0][0] }));
  }
  function rowOf(key, row, draw) {
    const message = h("p", { class: "error beside", role: "alert" });
    fields.set(row, { inputs: {}, message });
    const kind = KINDS[row.kind] ? row.kind : "";
    if (key === "goals") return [picked(row, "goal", "sense", [["maximize", "maximize"], ["minimize", "minimize"]]), SECTIONS[0][3].map((each) => field(row, each))];
    if (key === "variables") {
      const checks = ["", "levels", "integer", "choice"].includes(kind) ? CHECKS.filter(([word]) => kind !== "choice" || word === "observed") : [];
      return [field(row, ["name", "name", { name: "variable" }]), picked(row, "kind", "kind", Object.entries(KINDS).map(([value, [text]]) => [value, text]), draw), KINDS[kind][1].map((each) => field(row, each)),
        checks.map(([word, text]) => h("label", { class: "line" }, h("input", { type: "checkbox", checked: row[word], onchange: (e) => { row[word] = e.target.checked; later(); } }), text))];
    }
    const own = SECTIONS.find(([word]) => word === key)[3];
    return [(row.kind === "file" ? [own[0], KINDS.file[1][0]] : own).map((each) => field(row, each))];
  }
  function section([key, heading, text]) {
    const place = h("div");
    const draw = (focused, what = "input") => {
      fill(place, form[key].map((row, k) => h("div", { class: "formrow" }, rowOf(key, row, draw), h("button", { type: "button", class: "tiny", "aria-label": `Remove row ${k + 1} of ${heading}`, onclick: () => { form[key].splice(k, 1); draw(); later(); } }, "×"), fields.get(row).message)),
        h("button", { type: "button", class: "tiny", onclick: () => { form[key].push({}); draw(form[key].at(-1)); } }, "One more"));
      if (focused) fields.get(focused).message.parentElement.querySelector(what).focus(); // the hands stay where they were
    };
    draw();
    return h("section", { class: "card", "data-part": key }, h("h2", {}, heading), h("p", { class: "small dim" }, text), place);
  }
  const name = form.study ? null : h("input", { value: form.name ?? "", autocomplete: "off", placeholder: "coffee", name: "name", oninput: (e) => { form.name = e.target.value; later(); } });
  const nameError = h("p", { class: "error beside", role: "alert" });

  // The message of the server stands at the row and the field that it is about.
  function place(path, text) {
    fields.forEach(({ inputs, message }) => { message.textContent = ""; Object.values(inputs).forEach((each) => each.removeAttribute("aria-invalid")); });
    name?.removeAttribute("aria-invalid"); nameError.textContent = "";
    if (!text) return true;
    if (name && path.length === 1 && path[0] === "name") { name.setAttribute("aria-invalid", "true"); nameError.textContent = text; return true; }
    const rows = form[TABLES[path[0]] || path[0]] || [], filled = rows.filter((each) => Object.values(each).some((value) => value));
    const row = rows.find((each) => path[1] !== undefined && [each.name, each.formula].includes(path[1])) || filled[Number(path[1])] || (TABLES[path[0]] === "goals" ? rows.find((each) => (each.sense || "maximize") === path[0]) || rows[0] : null);
    const known = fields.get(row);
    if (!known) return false;
    const input = known.inputs[WORDS[path[2]] || path[2]] || known.inputs.formula || known.inputs.name;
    input?.setAttribute("aria-invalid", "true");
    known.message.textContent = text;
    return true;
  }
  async function check() {
    try {
      const found = await post("/api/check", form);
      const isPlaced = place(found.path || [], found.ok || !touched ? "" : found.error);
      fill(state, found.ok ? [h("p", { class: "good" }, "This can be used. It is understood as:"), h("pre", {}, found.understood.join("\n")), h("details", { id: "preview" }, h("summary", {}, "The file"), h("pre", {}, found.toml))]
        : touched ? h("p", { class: "error", id: "form-error" }, isPlaced ? `Not yet: ${found.error}` : found.error) : h("p", { class: "dim" }, "Fill in the form; it is checked while you type."));
      onChecked(found.ok);
      return found.ok;
    } catch (problem) { fill(state, h("p", { class: "error" }, problem.message)); onChecked(false); return false; }
  }
  const element = h("form", { onsubmit: (e) => { e.preventDefault(); asks.ask(); } },
    name ? h("section", { class: "card" }, h("label", {}, "Name of the study", name), nameError) : null, SECTIONS.map(section), h("section", { class: "card" }, state, asks.row));
  return { element, check: () => { touched = true; return check(); }, begin: check, fail: (text) => fill(state, h("p", { class: "error" }, text)), end: () => clearTimeout(timer) };
}

export function newPage(page, app) {
  const form = structuredClone(EMPTY), button = h("button", { class: "main", id: "create", disabled: true }, "Make the study");
  const made = questionForm(form, { asks: { ask: create, row: h("div", { class: "row" }, button) }, onChecked: (ok) => { button.disabled = !ok || app.read_only; } });
  fill(page, h("h1", {}, "New study"), h("p", { class: "lead" }, "What you know is written as formulas; what you do not know is measured. The form becomes a problem file that the shell reads, too."), made.element);
  async function create() {
    if (!(await made.check())) return;
    try { const done = await post("/api/studies", form); say(`${done.file} is written.`); location.hash = `#/s/${encodeURIComponent(done.id)}/work`; }
    catch (problem) { made.fail(problem.message); }
  }
  made.begin();
  return made.end;
}

// The question of a study that is there: bounds, labels, limits and formulas can change, the data are kept.
export async function questionPage(page, study, app) {
  const [about, { form }] = await Promise.all([get(at(study)), get(at(study, "/form"))]);
  form.study = study;
  const note = h("input", { placeholder: "why the question changes", "aria-label": "Why the question changes", maxlength: 500 });
  const button = h("button", { class: "main", id: "revise", disabled: true }, "Ask this question");
  const asks = { ask: revise, row: h("div", { class: "row" }, h("label", {}, "Note", note), button) };
  const made = questionForm(form, { asks, onChecked: (ok) => { button.disabled = !ok || app.read_only; } });
  fill(page, title(about), h("p", { class: "lead" }, "Change ranges, labels, limits, formulas or constants; the data are kept, and comments in the file, too."), made.element);
  async function revise() {
    if (!(await made.check())) return;
    try {
      const done = await post(at(study, "/revise"), { form, note: note.value, worker: worker() });
      say(`This is question ${done.question} now. The data are kept.`);
      location.hash = `#/s/${encodeURIComponent(study)}/overview`;
    } catch (problem) { made.fail(problem.message); }
  }
  made.begin();
  return made.end;
}
