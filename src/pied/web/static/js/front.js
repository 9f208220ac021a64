// The best trade-offs of several objectives: pictures whose points can be chosen with the pointer or the arrow keys.
import { cut, ticks } from "./charts.js";
import { fill, h, num, svg, united } from "./dom.js";

const HEIGHT = 360, TOP = 14, RIGHT = 18, BOTTOM = 46;
const ROOM = 0.35, REACH = 1.5; // of the extent of the front: room around it, and how far away what is possible is still shown

// The ends of an axis: the front is at the centre, and what is still possible is seen where it is not too far away.
function around(front, name, place) {
  const values = front.points.map((each) => each.values[name]), widths = front.points.map((each) => each.bounds[name][1] - each.bounds[name][0]).filter(Number.isFinite).sort((a, b) => a - b);
  const [low, high] = [Math.min(...values), Math.max(...values)], span = Math.max(high - low, widths[widths.length >> 1] || 0) || 0.1 * Math.abs(high) || 1;
  const near = front.possible.map((each) => each[place]).filter((each) => each > low - REACH * span && each < high + REACH * span);
  return [Math.min(low - ROOM * span, ...near.map((each) => each - 0.1 * span)), Math.max(high + ROOM * span, ...near.map((each) => each + 0.1 * span))];
}

function everything(front, name, place) {
  const known = [...front.points.flatMap((each) => [each.values[name], ...each.bounds[name]]), ...front.others.map((each) => each.values[place]), ...front.possible.map((each) => each[place])].filter(Number.isFinite);
  const [low, high] = [Math.min(...known), Math.max(...known)], room = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - room, high + room];
}

export function frontCard() {
  const pictures = h("div", { class: "grid" }), about = h("div", { class: "point", "aria-live": "polite" }), table = h("div"), still = h("p", { class: "dim small" });
  const legend = h("div", { class: "legend" }), outside = h("p", { class: "small dim" });
  const card = h("section", { class: "card", id: "front" }, h("h2", {}, "The best trade-offs"), h("p", { class: "small dim" }, "Choose a point, or go from one to the next with the arrow keys."), h("div", { class: "front" }, h("div", {}, pictures, legend, outside), about), still, table);
  let front = null, chosen = null, drawn = 0, isWide = false, leftOut = 0;

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
    for (const each of card.querySelectorAll(".bounds")) each.classList.toggle("on", Number(each.dataset.of) === chosen);
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
    const ends = isWide ? everything : around, [[x0, x1], [y0, y1]] = [ends(front, across, a), ends(front, up, b)];
    const beside = ticks(y0, y1), left = 34 + 7 * Math.max(...beside.map((each) => num(each, 4).length));
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - RIGHT), y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    const line = (corners, kind) => (corners.length > 1 ? svg("polyline", { class: kind, points: corners.map((each) => each.join(",")).join(" ") }) : null);
    const corner = (each) => [x(each[a]), y(each[b])], [betterX, worseX] = senses[0] === "more" ? [width - RIGHT, left] : [left, width - RIGHT], [betterY, worseY] = senses[1] === "more" ? [TOP, HEIGHT - BOTTOM] : [HEIGHT - BOTTOM, TOP];
    // what is still possible ends at this edge, which runs on to the sides of the picture
    const run = front.possible.map(corner), isAhead = run.length && (run.at(-1)[0] - run[0][0]) * (betterX - worseX) >= 0, hoped = isAhead ? run : run.reverse(), edge = hoped.length ? [[worseX, hoped[0][1]], ...hoped, [hoped.at(-1)[0], worseY]] : [];
    const isIn = (values) => values[a] >= x0 && values[a] <= x1 && values[b] >= y0 && values[b] <= y1, clip = `front-${a}-${b}`;
    leftOut += front.others.filter((each) => !isIn(each.values)).length;
    const order = [...front.points].sort((p, q) => p.values[across] - q.values[across]).map((each) => each.trial);
    const panel = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "trades", role: "radiogroup", "aria-label": `${front.points.length} best trade-offs: ${across} across, ${senses[0]} is better; ${up} upwards, ${senses[1]} is better`, onkeydown: (event) => keys(event, panel, order) });
    fill(panel,
      ticks(x0, x1).map((each) => [svg("line", { class: "grid", x1: x(each), x2: x(each), y1: TOP, y2: HEIGHT - BOTTOM }), svg("text", { x: x(each), y: HEIGHT - BOTTOM + 17, "text-anchor": "middle" }, num(each, 4))]),
      beside.map((each) => [svg("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(each), y2: y(each) }), svg("text", { x: left - 7, y: y(each) + 4, "text-anchor": "end" }, num(each, 4))]),
      svg("text", { x: (left + width - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, `${cut(across, front.objectives[across].unit, Math.floor((width - left) / 7) - 18)} (${senses[0]} is better)`),
      svg("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, `${cut(up, front.objectives[up].unit, 20)} (${senses[1]} is better)`),
      svg("clipPath", { id: clip }, svg("rect", { x: left, y: TOP, width: width - left - RIGHT, height: HEIGHT - TOP - BOTTOM })),
      svg("g", { "clip-path": `url(#${clip})` },
        edge.length ? svg("polygon", { class: "beyond", points: [...edge, [betterX, worseY], [betterX, betterY], [worseX, betterY]].map((each) => each.join(",")).join(" ") }) : null,
        front.points.map((each) => errors(each, across, up, x, y)), line(edge, "hoped"), line(front.steps.map(corner), "reached"),
        front.others.filter((each) => isIn(each.values)).map((each) => mark(x(each.values[a]), y(each.values[b]), each))),
      order.map((trial) => { const each = front.points.find((one) => one.trial === trial); return point(x(each.values[across]), y(each.values[up]), each, panel); }));
    return panel;
  }

  // Where a point of the front probably lies: a thin cross, darker for the chosen one.
  function errors(each, across, up, x, y) {
    const [[l, r], [d, u]] = [each.bounds[across], each.bounds[up]], [px, py] = [x(each.values[across]), y(each.values[up])];
    const bar = (x1, y1, x2, y2) => svg("line", { class: "bounds", "data-of": each.trial, x1, x2, y1, y2 });
    return [r > l ? bar(x(l), py, x(r), py) : null, u > d ? bar(px, y(d), px, y(u)) : null];
  }

  function mark(x, y, each) {
    const told = svg("title", {}, `trial ${each.trial}${each.met ? "" : ", breaks a limit"}`);
    return each.met ? svg("circle", { class: "other", cx: x, cy: y, r: 3.5 }, told) : svg("path", { class: "broken", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }, told);
  }

  function point(x, y, each, panel) {
    const isOn = each.trial === chosen, isBalanced = each.trial === front.balanced;
    return svg("g", { class: "pick", role: "radio", tabindex: isOn ? 0 : -1, "aria-checked": String(isOn), "data-trial": each.trial, "aria-label": `${each.text}, trial ${each.trial}${isBalanced ? ", balanced" : ""}`, onclick: () => choose(each.trial, panel) },
      svg("title", {}, `${each.text}, trial ${each.trial}`), svg("circle", { class: "reach", cx: x, cy: y, r: 13 }), svg("circle", { class: "ring", cx: x, cy: y, r: 9.5 }),
      isBalanced ? svg("path", { class: "best balanced", d: `M${x} ${y - 7}l7 7l-7 7l-7 -7z` }) : svg("circle", { class: "best", cx: x, cy: y, r: 5 }));
  }

  function draw() {
    if (!front || !card.isConnected) return;
    const pairs = names().slice(1).map((_, place) => [place, place + 1]), spots = pairs.map(() => h("div", { class: "chart" }));
    leftOut = 0;
    const isFocused = pictures.contains(document.activeElement); // a live picture is drawn anew under the hands
    fill(pictures, spots);
    drawn = pictures.clientWidth;
    spots.forEach((spot, k) => fill(spot, picture(...pairs[k], Math.max(260, spot.clientWidth || 480))));
    for (const each of card.querySelectorAll(".bounds")) each.classList.toggle("on", Number(each.dataset.of) === chosen);
    fill(outside, leftOut || isWide ? [leftOut ? `${leftOut} measurement${leftOut > 1 ? "s lie" : " lies"} outside of this picture. ` : null, h("button", { class: "tiny", onclick: () => { isWide = !isWide; draw(); } }, isWide ? "The front alone" : "Show all")] : null);
    if (isFocused) card.querySelector('[aria-checked="true"]')?.focus();
  }

  function show(found) {
    front = found && found.points && found.points.length && found.others ? found : null;
    card.hidden = !front;
    if (!front) return;
    if (!front.points.some((each) => each.trial === chosen)) chosen = front.balanced;
    still.textContent = front.still;
    const marks = [["dot", "best trade-off", true], ["dot ring", "chosen", true], ["diamond", "balanced", true], ["dot plain", "measured, not among the best", front.others.some((each) => each.met)], ["cross", "measured, breaks a limit", front.others.some((each) => !each.met)], ["line", "edge of what is reached", front.steps.length > 1], ["beyond", "probably not reached by any settings", front.possible.length > 0]];
    fill(legend, marks.filter(([, , isThere]) => isThere).map(([kind, words]) => h("span", {}, h("i", { class: kind }), words)));
    draw();
    describe();
    fill(table, h("details", {}, h("summary", {}, "All of them as a table"), h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "All best trade-offs" }, h("table", {}, h("thead", {}, h("tr", {}, names().map((name) => h("th", { class: "n", scope: "col" }, label(name))), Object.keys(front.points[0].x).map((name) => h("th", { class: "n", scope: "col" }, name)), h("th", { class: "n", scope: "col" }, "Trial"))),
      h("tbody", {}, front.points.map((each) => h("tr", {}, names().map((name) => h("td", { class: "n" }, each.shown[name])), Object.values(each.x).map((value) => h("td", { class: "n" }, num(value))), h("td", { class: "n" }, each.trial))))))));
  }

  const watch = new ResizeObserver(() => { if (Math.abs(pictures.clientWidth - drawn) > 8) draw(); });
  watch.observe(pictures);
  card.hidden = true;
  return { card, show, end: () => watch.disconnect() };
}
