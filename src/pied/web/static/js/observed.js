// What is measured, not chosen: fields for its present values, and the best settings as a function of it.
import { at, post } from "./api.js";
import { chart } from "./charts.js";
import { fill, h, num, united } from "./dom.js";

// Fields of the observed variables, filled with their last measured values; null where there are none.
export function presentFields(about, onChange = () => {}) {
  const observed = about.variables.filter((each) => each.observed);
  if (!observed.length) return null;
  const fields = observed.map((v) => {
    const value = about.present[v.name] ?? "", words = { id: `now-${v.name}`, onchange: onChange };
    return Object.assign(v.labels.length ? h("select", words, v.labels.map((each) => h("option", { value: each }, each))) : h("input", { ...words, class: "number", inputmode: "decimal", autocomplete: "off" }), value === "" ? {} : { value: v.labels.length ? value : num(value, 7) });
  });
  return {
    row: observed.map((v, k) => h("label", {}, `${united(v.name, v.unit && `[${v.unit}]`)} now`, fields[k])),
    values: () => Object.fromEntries(observed.map((v, k) => [v.name, fields[k].value.trim()]).filter(([, value]) => value)),
  };
}

// The best settings over what is measured, as a table and curves; hidden where everything is chosen.
export function policyCard(study) {
  const table = h("div", { class: "wide" }), pictures = h("div", { class: "grid" }), error = h("p", { class: "error", role: "alert" }), row = h("div", { class: "row" });
  const card = h("section", { class: "card", id: "policy", hidden: true }, h("h2", {}, "The best settings by what is measured"), row, error, table, pictures);
  const button = h("button", { id: "show-policy", onclick: show }, "Show");
  let about = null, fields = [];

  async function show() {
    button.disabled = true; button.textContent = "Computing …"; error.textContent = "";
    try {
      const found = await post(at(study, "/policy"), { values: Object.fromEntries(fields.map(({ v, input }) => [v.name, input.value.trim()]).filter(([, value]) => value)) });
      const [heads, ...lines] = found.texts;
      fill(table, h("table", {}, h("thead", {}, h("tr", {}, heads.map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, lines.map((line) => h("tr", {}, line.map((each) => h("td", { class: "n" }, each)))))));
      draw(found);
    } catch (problem) { error.textContent = problem.message; }
    button.disabled = false; button.textContent = "Show";
  }
  function draw({ names, points, columns }) {
    const [first, ...others] = names, v = about.variables.find((each) => each.name === first);
    const shown = points.filter((each) => others.every((name) => each[name] === points[0][name])), xs = shown.map((each) => (v.labels.length ? v.labels.indexOf(each[first]) : each[first]));
    if (shown.length < 2) return fill(pictures);
    const value = columns[columns.length - 5], settings = about.variables.filter((each) => !each.observed && !each.labels.length);
    const curves = [{ name: value, unit: about.unit, ends: [`${value} at most`, `${value} at least`] }, ...settings.map((each) => ({ name: each.name, unit: each.unit, ends: [] }))];
    const spots = curves.map(({ name }) => h("div", { class: "chart", role: "img", "aria-label": `${name} over ${first}` }));
    fill(pictures, spots);
    curves.forEach(({ name, unit, ends }, k) => {
      const column = (key) => shown.map((each) => each[key]);
      chart(spots[k], {
        x: first, along: { unit: v.unit, labels: v.labels, log: v.log }, y: name, unit, height: 200, bands: ends.length ? [[1, 2]] : [],
        data: [xs, ...ends.map(column), column(name), column(name)],
        series: [...ends.map((label) => ({ label, kind: "line", color: "certain", width: 1 })), { label: name, kind: "line", color: "blue" }, { label: name, kind: "points", color: "blue", size: 6 }],
      });
    });
    if (others.length) pictures.append(h("p", { class: "small dim" }, `at ${others.map((name) => `${name} = ${num(points[0][name])}`).join(", ")}`));
  }
  return {
    card,
    update(now) {
      const isFirst = !about;
      about = now;
      card.hidden = !now.variables.some((each) => each.observed) || now.trials_told < 2;
      if (!isFirst) return;
      fields = now.variables.filter((each) => each.observed).map((v) => ({ v, input: h("input", { id: `at-${v.name}`, placeholder: v.labels.length ? v.labels.join(" or ") : "12, or 0:30:7", "aria-label": `Values of ${v.name}` }) }));
      fill(row, fields.map(({ v, input }) => h("label", {}, united(v.name, v.unit && `[${v.unit}]`), input)), button, h("span", { class: "dim small" }, "Empty: between the smallest and the largest measured value."));
    },
  };
}
