// The best trade-offs of several objectives: pictures whose points can be chosen with the pointer or the arrow keys.
import { cut, ticks } from "./charts.js";
import { fill, h, num, svg, united } from "./dom.js";

const HEIGHT = 340, TOP = 14, RIGHT = 18, BOTTOM = 46;

function range(values) {
  const known = values.filter((each) => Number.isFinite(each)), low = Math.min(...known), high = Math.max(...known), room = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - room, high + room];
}

export function frontCard() {
  const pictures = h("div", { class: "grid" }), about = h("div", { class: "point", "aria-live": "polite" }), table = h("div"), still = h("p", { class: "dim small" });
  const legend = h("div", { class: "legend" });
  const card = h("section", { class: "card", id: "front" }, h("h2", {}, "The best trade-offs"), h("p", { class: "small dim" }, "Choose a point, or go from one to the next with the arrow keys."), h("div", { class: "front" }, h("div", {}, pictures, legend), about), still, table);
  let front = null, chosen = null, drawn = 0;

  const names = () => Object.keys(front.objectives);
  const label = (name) => united(name, front.objectives[name].unit && `[${front.objectives[name].unit}]`);

  function choose(trial, panel) {
    chosen = trial;
    for (const each of card.querySelectorAll("[role=radio]")) {
      const isOn = Number(each.dataset.trial) === chosen;
      each.setAttribute("aria-checked", String(isOn));
      each.setAttribute("tabindex", isOn ? "0" : "-1");
      if (isOn && each.closest("svg") === panel) each.focus();
    }
    describe();
  }

  function describe() {
    const point = front.points.find((each) => each.trial === chosen), place = front.points.indexOf(point) + 1;
    fill(about, h("h3", {}, `Trial ${point.trial}${point.trial === front.balanced ? ", the balanced one" : ""}`, h("span", { class: "dim" }, ` · ${place} of ${front.points.length}`)),
      h("dl", { class: "pairs" }, names().map((name) => [h("dt", {}, label(name)), h("dd", {}, h("strong", {}, point.shown[name]))])),
      h("dl", { class: "pairs" }, point.settings.map((each) => [h("dt", {}, each.name), h("dd", {}, each.text)])),
      point.limits.length ? h("ul", { class: "plain" }, point.limits.map((each) => h("li", {}, h("span", { class: "mark good", "aria-hidden": "true" }, "✓"), each.text))) : null);
  }

  function keys(event, panel, order) {
    const place = order.indexOf(chosen), next = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: order.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(order[Math.min(order.length - 1, Math.max(0, next))], panel);
  }

  // One picture: two of the objectives, by their places.
  function picture(a, b, width) {
    const [across, up] = [names()[a], names()[b]], senses = [across, up].map((name) => (front.objectives[name].sense === "minimize" ? "less" : "more"));
    const ends = (name, place) => [...front.points.flatMap((each) => [each.values[name], ...each.bounds[name]]), ...front.others.map((each) => each.values[place]), ...front.possible.map((each) => each[place])];
    const [[x0, x1], [y0, y1]] = [range(ends(across, a)), range(ends(up, b))];
    const beside = ticks(y0, y1), left = 34 + 7 * Math.max(...beside.map((each) => num(each, 4).length));
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - RIGHT), y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    const line = (corners, kind) => (corners.length > 1 ? svg("polyline", { class: kind, points: corners.map((each) => `${x(each[a])},${y(each[b])}`).join(" ") }) : null);
    const order = [...front.points].sort((p, q) => p.values[across] - q.values[across]).map((each) => each.trial);
    const panel = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "trades", role: "radiogroup", "aria-label": `${front.points.length} best trade-offs: ${across} across, ${senses[0]} is better; ${up} upwards, ${senses[1]} is better`, onkeydown: (event) => keys(event, panel, order) });
    fill(panel,
      ticks(x0, x1).map((each) => [svg("line", { class: "grid", x1: x(each), x2: x(each), y1: TOP, y2: HEIGHT - BOTTOM }), svg("text", { x: x(each), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, num(each, 4))]),
      beside.map((each) => [svg("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(each), y2: y(each) }), svg("text", { x: left - 7, y: y(each) + 4, "text-anchor": "end" }, num(each, 4))]),
      svg("text", { x: (left + width - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, `${cut(across, front.objectives[across].unit, Math.floor((width - left) / 7) - 18)} (${senses[0]} is better)`),
      svg("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, `${cut(up, front.objectives[up].unit, 20)} (${senses[1]} is better)`),
      line(front.possible, "hoped"), line(front.steps, "reached"),
      front.others.map((each) => mark(x(each.values[a]), y(each.values[b]), each)),
      front.points.map((each) => { const [l, r] = each.bounds[across], [d, u] = each.bounds[up], [px, py] = [x(each.values[across]), y(each.values[up])]; return [r > l ? svg("line", { class: "bounds", x1: x(l), x2: x(r), y1: py, y2: py }) : null, u > d ? svg("line", { class: "bounds", x1: px, x2: px, y1: y(d), y2: y(u) }) : null]; }),
      order.map((trial) => { const each = front.points.find((one) => one.trial === trial); return point(x(each.values[across]), y(each.values[up]), each, panel); }));
    return panel;
  }

  function mark(x, y, each) {
    const told = svg("title", {}, `trial ${each.trial}${each.met ? "" : ", breaks a limit"}`);
    return each.met ? svg("circle", { class: "other", cx: x, cy: y, r: 3.5 }, told) : svg("path", { class: "broken", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }, told);
  }

  function point(x, y, each, panel) {
    const isOn = each.trial === chosen, isBalanced = each.trial === front.balanced;
    return svg("g", { class: "pick", role: "radio", tabindex: isOn ? 0 : -1, "aria-checked": isOn, "data-trial": each.trial, "aria-label": `${each.text}, trial ${each.trial}${isBalanced ? ", balanced" : ""}`, onclick: () => choose(each.trial, panel) },
      svg("title", {}, `${each.text}, trial ${each.trial}`), svg("circle", { class: "reach", cx: x, cy: y, r: 13 }), svg("circle", { class: "ring", cx: x, cy: y, r: 9.5 }),
      isBalanced ? svg("path", { class: "best balanced", d: `M${x} ${y - 7}l7 7l-7 7l-7 -7z` }) : svg("circle", { class: "best", cx: x, cy: y, r: 5 }));
  }

  function draw() {
    if (!front || !card.isConnected) return;
    const pairs = names().slice(1).map((_, place) => [place, place + 1]), spots = pairs.map(() => h("div", { class: "chart" }));
    const isFocused = pictures.contains(document.activeElement); // a live picture is drawn anew under the hands
    fill(pictures, spots);
    drawn = pictures.clientWidth;
    spots.forEach((spot, k) => fill(spot, picture(...pairs[k], Math.max(260, spot.clientWidth || 480))));
    if (isFocused) card.querySelector('[aria-checked="true"]')?.focus();
  }

  function show(found) {
    front = found && found.points && found.points.length && found.others ? found : null;
    card.hidden = !front;
    if (!front) return;
    if (!front.points.some((each) => each.trial === chosen)) chosen = front.balanced;
    still.textContent = front.still;
    const marks = [["dot", "best trade-off", true], ["dot ring", "chosen", true], ["diamond", "balanced", true], ["dot plain", "measured, not among the best", front.others.some((each) => each.met)], ["cross", "measured, breaks a limit", front.others.some((each) => !each.met)], ["line", "edge of what is reached", front.steps.length > 1], ["line hoped", "probably not beyond this", front.possible.length > 1]];
    fill(legend, marks.filter(([, , isThere]) => isThere).map(([kind, words]) => h("span", {}, h("i", { class: kind }), words)));
    draw();
    describe();
    fill(table, h("details", {}, h("summary", {}, "All of them as a table"), h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, names().map((name) => h("th", { class: "n", scope: "col" }, label(name))), Object.keys(front.points[0].x).map((name) => h("th", { class: "n", scope: "col" }, name)), h("th", { class: "n", scope: "col" }, "Trial"))),
      h("tbody", {}, front.points.map((each) => h("tr", {}, names().map((name) => h("td", { class: "n" }, each.shown[name])), Object.values(each.x).map((value) => h("td", { class: "n" }, num(value))), h("td", { class: "n" }, each.trial))))))));
  }

  const watch = new ResizeObserver(() => { if (Math.abs(pictures.clientWidth - drawn) > 8) draw(); });
  watch.observe(pictures);
  card.hidden = true;
  return { card, show, end: () => watch.disconnect() };
}
