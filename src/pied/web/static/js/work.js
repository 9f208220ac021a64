// Work at a study: ask, tell, fail, correct, withdraw, note, add a table, print a plan.
import { at, post, upload, worker } from "./api.js";
import { errorOf, fill, h, num, say, united } from "./dom.js";
import { presentFields } from "./observed.js";
import { follow, title } from "./study.js";

export async function workPage(page, study, app) {
  const head = h("div"), open = h("div"), done = h("section", { class: "card" });
  const drafts = new Map(); // what is typed stays, also when the page is drawn anew
  let about = null, trials = [];
  const count = h("input", { type: "number", min: 1, max: 100, value: 1, "aria-label": "Open trials wanted in all" }), given = h("input", { id: "given", placeholder: "T = 80", "aria-label": "Settings that are not free" }), error = h("p", { class: "error", role: "alert" });
  const asking = h("button", { class: "main", id: "ask", onclick: ask }, "Ask what to measure next");
  const drop = dropZone(), present = h("span", { class: "row" });
  let now = null; // fields of what is measured, not chosen
  fill(page, head,
    app.read_only ? h("p", { class: "card" }, "This dashboard is read only.") : h("section", { class: "card noprint" }, h("h2", {}, "Next"), h("div", { class: "row" }, asking, present, h("label", {}, "open trials in all", count), h("label", {}, "given", given), h("button", { onclick: () => print() }, "Print the plan"), h("a", { class: "button", href: at(study, "/plan.csv") }, "Plan as CSV"), h("a", { class: "button", href: at(study, "/plan.xlsx") }, "Plan as Excel")), error),
    open, app.read_only ? null : drop.card, app.read_only ? null : done);

  async function ask() {
    asking.disabled = true; asking.textContent = "Computing …"; error.textContent = "";
    try { const found = await post(at(study, "/ask"), { count: Number(count.value) || 1, given: { ...now?.values(), ...Object.fromEntries(given.value.split(",").filter((each) => each.trim()).map((each) => { const [name, ...value] = each.split("="); return [name.trim(), value.join("=").trim()]; })) }, worker: worker() }); say(`Open: trial ${found.trials.map((each) => each.trial).join(", ")}`); if (found.notes) error.textContent = found.notes.join(" "); }
    catch (problem) { error.textContent = problem.message; }
    asking.disabled = false; asking.textContent = "Ask what to measure next";
  }

  function trialCard(t) {
    const draft = drafts.get(t.trial) || { values: {}, at: {} };
    drafts.set(t.trial, draft);
    const wrong = h("p", { class: "error", role: "alert" }, draft.error || "");
    const input = (group, name, label, given) => h("label", {}, label, h("input", { class: "number", name, value: draft[group][name] ?? "", placeholder: given, autocomplete: "off", inputmode: "decimal", oninput: (e) => { draft[group][name] = e.target.value; } }));
    const act = async (word, body) => {
      try { const made = await post(at(study, `/trials/${t.trial}/${word}`), { ...body, worker: worker() }); draft.error = ""; if (word === "tell" || word === "fail") drafts.delete(t.trial); say(made.said || `trial ${t.trial}: done`); }
      catch (problem) { draft.error = problem.message; wrong.textContent = problem.message; }
    };
    const anyway = h("input", { type: "checkbox", checked: draft.anyway, onchange: (e) => { draft.anyway = e.target.checked; } });
    const luck = h("input", { type: "checkbox", name: "not-the-settings", checked: draft.luck, onchange: (e) => { draft.luck = e.target.checked; } });
    const reason = h("input", { placeholder: "why it could not be done", "aria-label": "Why it could not be done", value: draft.reason || "", oninput: (e) => { draft.reason = e.target.value; } });
    return h("form", { class: "card", "data-trial": t.trial, onsubmit: (e) => { e.preventDefault(); act("tell", { values: draft.values, at: draft.at, block: draft.block || "", campaign: draft.campaign || "", anyway: Boolean(draft.anyway) }); } },
      h("h2", {}, `Trial ${t.trial}`, t.worker ? h("span", { class: "dim small" }, ` · ${t.worker}`) : null), h("p", { class: "small dim" }, t.why),
      h("dl", { class: "pairs" }, about.variables.map((v) => [h("dt", {}, v.name), h("dd", {}, h("strong", {}, united(num(t.x[v.name], 7), v.unit)))])),
      app.read_only ? null : [h("div", { class: "row noprint" }, about.outputs.map((o) => (t.y[o.name] !== undefined ? h("span", { class: "tag good" }, `${o.name} = ${num(t.y[o.name])}${errorOf(t, o.name)}`) : input("values", o.name, united(o.name, o.unit && `[${o.unit}]`), "not yet"))), h("button", { class: "main" }, "Tell")),
        wrong,
        h("details", { class: "noprint" }, h("summary", {}, "Set otherwise, could not be done, …"),
          h("div", { class: "row" }, about.variables.map((v) => input("at", v.name, `really set: ${united(v.name, v.unit && `[${v.unit}]`)}`, num(t.x[v.name], 6)))),
          h("label", {}, "Block: day, operator, batch, …", h("input", { name: "block", value: draft.block || "", placeholder: t.block || "none", oninput: (e) => { draft.block = e.target.value; } })),
          h("label", {}, "Campaign, if not the present one: last year's, sister equipment, …", h("input", { name: "campaign", value: draft.campaign || "", placeholder: t.campaign || "the present one", oninput: (e) => { draft.campaign = e.target.value; } })),
          h("label", { class: "line" }, anyway, "these values are right, also outside of their ranges"),
          h("div", { class: "row" }, reason, h("label", { class: "line" }, luck, "not because of the settings"), h("button", { type: "button", onclick: () => act("fail", { reason: draft.reason || "", anyway: t.state === "partial", not_the_settings: Boolean(draft.luck) }) }, "Could not be done")))]);
  }

  function dropZone() {
    const said = h("p", { role: "status" }), wrong = h("p", { class: "error", role: "alert" });
    const choose = h("input", { type: "file", accept: ".csv,.xlsx,.txt,.tsv", id: "table", onchange: () => choose.files[0] && send(choose.files[0]) });
    const anyway = h("input", { type: "checkbox" });
    const campaign = h("input", { name: "table-campaign", placeholder: "the present one" });
    async function send(file, yes = false) {
      if (choose.disabled) return;
      choose.disabled = true; zone.setAttribute("aria-busy", "true");
      said.textContent = `adding ${file.name}; the next table can be dropped when this one is in the record …`; wrong.textContent = "";
      try { const made = await upload(at(study, `/table?${new URLSearchParams({ name: file.name, worker: worker(), anyway: anyway.checked, yes, campaign: campaign.value })}`), file); choose.disabled = false; if (made.question) { if (confirm(`${made.question}\n\nIs that right?`)) return send(file, true); made.said = "Nothing was added."; } said.textContent = made.said; wrong.textContent = [...(made.refused || []), ...(made.notes || [])].join("\n"); }
      catch (problem) { said.textContent = ""; wrong.textContent = problem.message; }
      choose.value = ""; choose.disabled = false; zone.removeAttribute("aria-busy");
    }
    const zone = h("div", { class: "drop" },
      h("p", {}, "Drop a table here, CSV or Excel: older data, or a plan that was filled in."), h("label", { class: "line" }, "or choose a file", choose), " ", h("label", { class: "line" }, anyway, "these values are right, also outside of their ranges"), h("label", { class: "line" }, "from another campaign or equipment: ", campaign), said, wrong);
    // anywhere on the page counts: a browser opens a file that is dropped beside the zone, and what was typed is lost
    const over = (e) => { e.preventDefault(); zone.classList.add("over"); }, away = (e) => { if (!e.relatedTarget) zone.classList.remove("over"); };
    const dropped = (e) => { e.preventDefault(); zone.classList.remove("over"); if (e.dataTransfer.files[0]) { zone.scrollIntoView({ block: "nearest" }); send(e.dataTransfer.files[0]); } };
    const listen = (does) => { does("dragover", over); does("dragleave", away); does("drop", dropped); };
    return { card: h("section", { class: "card noprint" }, h("h2", {}, "Add a table"), zone), begin: () => listen(addEventListener), end: () => listen(removeEventListener) };
  }

  function drawDone() {
    const told = trials.filter((t) => t.state !== "asked");
    if (!told.length) return fill(done, h("h2", {}, "Correct, withdraw, note"), h("p", { class: "dim" }, "Nothing is measured yet."));
    const chosen = done.querySelector("select")?.value;
    const which = h("select", { "aria-label": "Which trial" }, told.slice().reverse().map((t) => h("option", { value: t.trial }, `trial ${t.trial}${t.state === "withdrawn" ? " (withdrawn)" : t.state === "failed" ? " (failed)" : ""}`)));
    if (chosen && told.some((t) => String(t.trial) === chosen)) which.value = chosen;
    const body = h("div");
    const draw = () => {
      const t = told.find((each) => String(each.trial) === which.value), wrong = h("p", { class: "error", role: "alert" }), values = {}, settings = {};
      const right = h("input", { type: "checkbox" }), why = h("input", { placeholder: "the reason", "aria-label": "The reason" }), text = h("input", { placeholder: "a note", "aria-label": "A note" });
      const act = async (word, given) => { try { await post(at(study, `/trials/${t.trial}/${word}`), { ...given, worker: worker() }); say(`trial ${t.trial}: done`); wrong.textContent = ""; } catch (problem) { wrong.textContent = problem.message; } };
      const luck = h("input", { type: "checkbox", name: "not-the-settings", checked: t.not_the_settings, onchange: () => act("fail", { reason: t.reason, not_the_settings: luck.checked }) });
      fill(body, t.state === "failed" ? h("div", {}, h("p", { class: "bad" }, `failed: ${t.reason}`), h("label", { class: "line" }, luck, "not because of the settings: they are not avoided")) : null, h("p", { class: "small dim" }, about.variables.map((v) => `${v.name} = ${united(num(t.x[v.name], 6), v.unit)}`).join(", ")),
        t.state === "withdrawn" ? h("button", { onclick: () => act("restore", { why: why.value }) }, "Let it count again")
          : [h("div", { class: "row" }, about.outputs.map((o) => h("label", {}, united(o.name, o.unit && `[${o.unit}]`), h("input", { class: "number", name: `right-${o.name}`, placeholder: num(t.y[o.name], 7), oninput: (e) => { values[o.name] = e.target.value; } })))),
            h("details", {}, h("summary", {}, "other settings were set"), h("div", { class: "row" }, about.variables.map((v) => h("label", {}, united(v.name, v.unit && `[${v.unit}]`), h("input", { class: "number", placeholder: num(t.x[v.name], 6), oninput: (e) => { settings[v.name] = e.target.value; } }))))),
            h("label", { class: "line" }, right, "these values are right, also outside of their ranges"),
            h("div", { class: "row" }, h("label", {}, "Reason", why), h("button", { id: "correct", onclick: () => act("correct", { values, at: settings, why: why.value, anyway: right.checked }) }, "Correct"), h("button", { onclick: () => act("withdraw", { why: why.value }) }, "Withdraw"))],
        h("div", { class: "row" }, h("label", {}, "Note", text), h("button", { onclick: () => act("note", { text: text.value }) }, "Write the note")), wrong,
        t.amended.map((each) => h("p", { class: "small warn" }, each)), t.notes.map((each) => h("p", { class: "small" }, `Note: ${each}`)));
    };
    which.addEventListener("change", draw);
    fill(done, h("h2", {}, "Correct, withdraw, note"), h("div", { class: "row" }, which), body);
    draw();
  }

  let last = "", told = "";
  const stop = await follow(study, {
    onChange(latest, all) {
      about = latest; trials = all;
      if (!now && (now = presentFields(about))) fill(present, now.row);
      fill(head, title(about));
      const waiting = all.filter((t) => !t.added && (t.state === "asked" || t.state === "partial")), key = JSON.stringify([waiting.map((t) => [t.trial, t.state, t.y, t.worker]), about.questions]);
      if (key !== last) { last = key; const focus = document.activeElement?.name, form = document.activeElement?.closest("form")?.dataset.trial; fill(open, waiting.length ? h("div", { class: "grid" }, waiting.map(trialCard)) : h("p", { class: "dim" }, "No trial is open."), h("p")); if (focus && form) open.querySelector(`form[data-trial="${Number(form)}"] [name="${CSS.escape(focus)}"]`)?.focus(); }
      const settled = JSON.stringify(all.filter((t) => t.state !== "asked").map((t) => [t.trial, t.state, t.not_the_settings, t.y, t.notes, t.amended]));
      if (settled !== told && !app.read_only) { told = settled; if (!done.contains(document.activeElement) || document.activeElement.tagName === "BUTTON" || !done.children.length) drawDone(); }
    },
  });
  if (!app.read_only) drop.begin();
  return () => { stop(); drop.end(); };
}
