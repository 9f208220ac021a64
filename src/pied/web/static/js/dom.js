// Elements are made here, always with textContent: stored text can never become markup.

export function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else if (name === "checked" || name === "disabled" || name === "multiple") made[name] = Boolean(value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, children);
  return made;
}

// The same for a part of a picture: SVG has its own elements, and takes a class as an attribute.
export function svg(tag, given = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, String(value));
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

let timer;
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => place.classList.remove("shown"), 5000);
}

export function field(label, input) { return h("label", {}, label, input); }

export const errorOf = (trial, name) => { const own = (trial.errors || {})[name]; return own ? ` ± ${num(own.deviation, 3)}${own.n > 1 ? ` (n=${own.n})` : ""}` : ""; };
export function num(value, digits = 5) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const plain = Number(value.toPrecision(digits));
  return Math.abs(plain) >= 1e7 || (plain !== 0 && Math.abs(plain) < 1e-4) ? plain.toExponential(digits - 1) : String(plain);
}

// Two ends with two digits of their distance, as the shell writes a range; more where they would look the same.
export function span(low, high) {
  if (!(high > low)) return num(low, 6);
  for (let places = 1 - Math.floor(Math.log10(high - low)); places < 13; places++) {
    const unit = 10 ** -places, ends = [low, high].map((each) => (places > 0 ? String(Number(each.toFixed(places))) : String(Math.round(each / unit) * unit)));
    if (ends[0] !== ends[1]) return ends.join(" to ");
  }
  return num(low, 6);
}

export function united(text, unit) { return unit ? `${text} ${unit}` : text; }

export function when(seconds) {
  if (!seconds) return "–";
  const date = new Date(seconds * 1000);
  const day = `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
  return `${day} ${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
}

export function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }
