// The pages: which one is shown follows from the part of the address after #.
import { get, setWorker, worker } from "./api.js";
import { fill, h } from "./dom.js";
import { apiPage } from "./apipage.js";
import { newPage, questionPage } from "./form.js";
import { studiesPage } from "./studies.js";
import { overviewPage } from "./overview.js";
import { trialsPage } from "./trials.js";
import { understandPage } from "./understand.js";
import { whatIfPage } from "./whatif.js";
import { workPage } from "./work.js";

if (location.search) history.replaceState(null, "", location.pathname + location.hash); // the token leaves the address

const PAGES = { overview: ["Overview", overviewPage], trials: ["Trials", trialsPage], understand: ["Understand", understandPage], "what-if": ["What if", whatIfPage], work: ["Work", workPage], question: ["", questionPage] };
const top = document.getElementById("top"), page = document.getElementById("page");
let leave = () => {}, about = { read_only: false, you: "" }, turn = 0;

function theme(next) {
  if (next) localStorage.setItem("pied-theme", next);
  const kept = localStorage.getItem("pied-theme");
  if (kept) document.documentElement.dataset.theme = kept;
}

function isDark() {
  const kept = document.documentElement.dataset.theme;
  return kept ? kept === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function header(study, shown) {
  const link = (to, text, current) => h("a", { href: to, "aria-current": current ? "page" : undefined }, text);
  const links = study
    ? Object.entries(PAGES).filter(([, [text]]) => text).map(([key, [text]]) => link(`#/s/${encodeURIComponent(study)}/${key}`, text, key === shown))
    : [link("#/", "Studies", shown === ""), about.read_only ? null : link("#/new", "New study", shown === "new"), link("#/api", "For instruments", shown === "api")];
  fill(top,
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/static/icon.svg", alt: "" }), study ? "All studies" : "pied"),
    h("nav", { "aria-label": study ? "Pages of the study" : "Pages" }, links),
    h("span", { class: "who" },
      about.read_only ? h("span", { class: "tag" }, "read only") : h("label", { class: "line" }, "you", h("input", { value: worker(), placeholder: about.you, maxlength: 60, onchange: (e) => setWorker(e.target.value.trim()) })),
      h("button", { class: "tiny", "aria-label": "Switch between light and dark", onclick: () => { theme(isDark() ? "light" : "dark"); show(); } }, isDark() ? "Light" : "Dark")));
}

async function show() {
  const mine = ++turn;
  leave(); leave = () => {};
  const parts = location.hash.split("?")[0].replace(/^#\/?/, "").split("/").map(decodeURIComponent); // what follows ? is how a page is looked at
  const study = parts[0] === "s" ? parts[1] : null;
  const key = study ? (PAGES[parts[2]] ? parts[2] : "overview") : parts[0];
  header(study, key);
  fill(page, h("p", { class: "dim" }, "Loading …"));
  try {
    const made = study ? await PAGES[key][1](page, study, about, parts) : key === "new" ? newPage(page, about) : key === "api" ? await apiPage(page) : studiesPage(page, about);
    if (mine !== turn) made?.();
    else leave = made || leave;
  } catch (error) {
    fill(page, h("div", { class: "card" }, h("h1", {}, "This cannot be shown"), h("p", { class: "error", role: "alert" }, error.message), h("a", { class: "button", href: "#/" }, "All studies")));
  }
}

theme();
addEventListener("hashchange", () => { show(); page.focus({ preventScroll: true }); scrollTo(0, 0); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
get("/api").then((found) => { about = found; show(); }).catch((error) => fill(page, h("p", { class: "error" }, error.message)));
