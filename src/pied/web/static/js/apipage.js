// The interface for instruments: three requests to copy, then all addresses from the OpenAPI description.
import { get } from "./api.js";
import { fill, h } from "./dom.js";

const GROUPS = [
  ["Ask, tell, answer", /\/(ask|tell|fail|result|trials|what-if)$/], ["Correct and note", /\/(correct|withdraw|restore|note|history)$/],
  ["Studies and questions", /^\/api\/(studies|check)$|\/(revise|events)$|\{study\}$/], ["Tables and reports", /\/table$|\.[a-z]+$/], ["Pictures", /./],
];

function example(study) {
  const base = `${location.origin}/api/studies/${encodeURIComponent(study.id)}`;
  const send = (path, body) => `curl -s -H "X-Pied-Token: $PIED_TOKEN" -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(body)}' \\\n  ${base}${path}`;
  const values = Object.fromEntries(study.outputs.map((each) => [each.name, 0.1]));
  return ["# what to set next; the answer has the number of the trial", send("/ask", { worker: "robot-1" }), "", "# what was measured, here of trial 1", send("/trials/1/tell", { worker: "robot-1", values }), "", "# the best settings so far", `curl -s -H "X-Pied-Token: $PIED_TOKEN" ${base}/result`].join("\n");
}

export async function apiPage(page) {
  const [found, cards] = await Promise.all([get("/api/openapi.json"), get("/api/studies")]);
  const readable = cards.filter((each) => !each.error), shown = h("pre", { "aria-label": "Requests to copy", tabindex: 0 });
  const draw = async (id) => { shown.textContent = example(await get(`/api/studies/${encodeURIComponent(id)}`)); };
  const which = h("select", { onchange: () => draw(which.value) }, readable.map((each) => h("option", { value: each.id }, each.name)));
  if (readable.length) await draw(readable[0].id);
  const entry = ([path, method, each]) => {
    const fields = Object.entries(each.requestBody?.content["application/json"]?.schema.properties || {}); // a file has none
    return h("section", { class: "entry" }, h("code", {}, h("strong", {}, method.toUpperCase()), ` ${path}`), h("p", {}, each.summary),
      fields.length ? h("dl", { class: "pairs" }, fields.map(([name, about]) => [h("dt", {}, name), h("dd", {}, about.description)])) : null);
  };
  const all = Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, each]) => [path, method, each]));
  const groups = new Map(GROUPS.map(([name]) => [name, []]));
  for (const each of all) groups.get(GROUPS.find(([, kind]) => kind.test(each[0]))[0]).push(each);
  const refusals = Object.entries(Object.values(Object.values(found.paths)[0])[0].responses);
  fill(page, h("h1", {}, "For instruments"), h("p", { class: "lead" }, "What the pages do, robots and programs can do, too, with JSON."),
    h("section", { class: "card" }, h("h2", {}, "Three requests"), h("p", {}, "Every request has the token, ", h("code", {}, "X-Pied-Token: …"), " or ", h("code", {}, "Authorization: Bearer …"), ". It is part of the address that was printed when the server started; ", h("code", {}, "PIED_TOKEN"), " sets it before."),
      readable.length ? [h("label", {}, "Study", which), shown] : h("p", { class: "dim" }, "There is no study yet."),
      h("p", {}, "Asking again returns the same trial until it is told, and telling the same again changes nothing: after a lost answer, send the request again.")),
    [...groups].map(([name, entries]) => h("section", { class: "card" }, h("h2", {}, name), entries.map(entry))),
    h("section", { class: "card" }, h("h2", {}, "Answers"), h("dl", { class: "pairs" }, refusals.map(([code, about]) => [h("dt", {}, code), h("dd", {}, about.description)])), h("p", {}, h("a", { class: "button", href: "/api/openapi.json" }, "openapi.json"))));
  return null;
}
