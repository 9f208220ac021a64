// All studies and where they stand, live.
import { fill, h, num, united, when } from "./dom.js";

const STATUS = { NEW: "not begun", RUNNING: "under way", FINISHED: "budget spent", GAP_REACHED: "gap reached", INFEASIBLE: "cannot be met", BROKEN: "nothing works", INTERRUPTED: "interrupted", DONE: "complete" };
export const statusTag = (status) => h("span", { class: `tag ${status === "INFEASIBLE" || status === "BROKEN" ? "bad" : status === "DONE" || status === "GAP_REACHED" ? "good" : ""}` }, STATUS[status] || status);

export function studiesPage(page, about) {
  const body = h("tbody");
  const table = h("div", { class: "card wide", tabindex: 0, role: "region", "aria-label": "All studies" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Study", "Question"].map((t) => h("th", { scope: "col" }, t)), h("th", { class: "n", scope: "col" }, "Trials"), h("th", { class: "n", scope: "col" }, "Best so far"), h("th", { class: "n", scope: "col" }, "Still possible"), h("th", { scope: "col" }, "Status"), h("th", { scope: "col" }, "Last change"))), body));
  fill(page, h("h1", {}, "Studies"), h("p", { class: "lead" }, "What is being optimized, and how far each study is."), table,
    about.read_only ? null : h("a", { class: "button", href: "#/new" }, "New study"));
  const source = new EventSource("/api/events");
  source.addEventListener("studies", (event) => {
    const cards = JSON.parse(event.data);
    if (!cards.length) return fill(body, h("tr", {}, h("td", { colspan: 7 }, "There are no studies yet. Begin with “New study”, or start the dashboard with a problem file.")));
    fill(body, cards.map((each) => each.error
      ? h("tr", {}, h("td", {}, each.name), h("td", { colspan: 6, class: "bad" }, each.error))
      : h("tr", {},
        h("td", {}, h("a", { href: `#/s/${encodeURIComponent(each.id)}/overview` }, each.name)),
        h("td", {}, each.question), h("td", { class: "n" }, each.trials),
        h("td", { class: "n" }, each.best ? united(num(each.best.value), each.unit) : "–"),
        h("td", { class: "n" }, each.gap === null ? "–" : united(num(each.gap, 2), each.unit)),
        h("td", {}, statusTag(each.status)), h("td", { class: "dim" }, when(each.changed)))));
  });
  return () => source.close();
}
