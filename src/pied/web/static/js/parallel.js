// All measured trials across all axes at once: settings, outputs, the objective.
import { cut } from "./charts.js";
import { h, num, svg } from "./dom.js";

const HEIGHT = 300, TOP = 46, BOTTOM = 26, APART = 96, MOST_OUTPUTS = 8;

export function parallel(about, trials, best, room) {
  const told = trials.filter((each) => each.state === "told" && each.value !== null);
  const axes = [...about.variables.map((v) => ({ name: v.name, unit: v.unit, labels: v.labels, log: v.log, ends: v.labels.length ? [0, v.labels.length - 1] : [v.lo, v.hi], of: (t) => (v.labels.length ? v.labels.indexOf(t.x[v.name]) : t.x[v.name]) })),
    ...[...about.outputs.slice(0, MOST_OUTPUTS).map((o) => ({ name: o.name, unit: o.unit, of: (t) => t.y[o.name] })), { name: about.objective, unit: about.unit, of: (t) => t.value }].map((axis) => {
      const values = told.map(axis.of).filter((each) => typeof each === "number");
      return { ...axis, labels: [], ends: [Math.min(...values), Math.max(...values)] };
    })];
  const apart = Math.max(APART, (room - 110) / (axes.length - 1)), width = 110 + apart * (axes.length - 1), x = (k) => 55 + k * apart;
  const y = (axis, value) => {
    if (typeof value !== "number") return null;
    const scale = axis.log ? Math.log : (each) => each, [low, high] = axis.ends.map(scale);
    return HEIGHT - BOTTOM - ((scale(value) - low) / (high - low || 1)) * (HEIGHT - TOP - BOTTOM);
  };
  const line = (t) => {
    const corners = axes.map((axis, k) => [x(k), y(axis, axis.of(t))]).filter(([, v]) => v !== null && Number.isFinite(v));
    const kind = t.trial === best ? "best" : t.feasible ? "met" : "broken";
    return svg("polyline", { class: `trial ${kind}`, points: corners.map((each) => each.join(",")).join(" ") }, svg("title", {}, `trial ${t.trial}${t.feasible ? "" : ", breaks a limit"}`));
  };
  const order = [...told].sort((a, b) => (a.trial === best) - (b.trial === best) || Boolean(a.feasible) - Boolean(b.feasible));
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "All trials at once" }, svg("svg", { class: "parallel", width, height: HEIGHT, role: "img", "aria-label": `${told.length} measured trials across ${axes.map((each) => each.name).join(", ")}` },
    axes.map((axis, k) => svg("line", { class: "axis", x1: x(k), x2: x(k), y1: TOP, y2: HEIGHT - BOTTOM })), order.map(line),
    axes.map((axis, k) => [svg("text", { x: x(k), y: 14, "text-anchor": "middle", class: "name" }, cut(axis.name, "", 15)), svg("text", { x: x(k), y: 29, "text-anchor": "middle" }, cut(axis.unit || "", "", 15)),
      axis.labels.length ? axis.labels.map((text, place) => svg("text", { x: x(k) + 5, y: y(axis, place) + 4 }, cut(text, "", 12)))
        : [svg("text", { x: x(k), y: TOP - 5, "text-anchor": "middle" }, num(axis.ends[1], 3)), svg("text", { x: x(k), y: HEIGHT - 10, "text-anchor": "middle" }, num(axis.ends[0], 3))]])));
}
