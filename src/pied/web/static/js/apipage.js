// The interface for instruments, from its OpenAPI description.
import { get } from "./api.js";
import { fill, h } from "./dom.js";

export async function apiPage(page) {
  const found = await get("/api/openapi.json");
  const entry = (path, method, each) => {
    const fields = Object.entries(each.requestBody?.content["application/json"].schema.properties || {});
    return h("section", { class: "card" }, h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`)), h("p", {}, each.summary),
      fields.length ? h("dl", { class: "pairs" }, fields.map(([name, about]) => [h("dt", {}, name), h("dd", {}, about.description)])) : null);
  };
  fill(page, h("h1", {}, "For instruments"), h("p", { class: "lead" }, found.info.description), h("p", {}, h("a", { class: "button", href: "/api/openapi.json" }, "openapi.json")),
    Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, each]) => entry(path, method, each))),
    h("section", { class: "card" }, h("h2", {}, "Refusals"), h("dl", { class: "pairs" }, Object.entries(Object.values(Object.values(found.paths)[0])[0].responses).map(([code, about]) => [h("dt", {}, code), h("dd", {}, about.description)]))));
  return null;
}
