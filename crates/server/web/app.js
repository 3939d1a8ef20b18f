// Selects the view, and the light or dark theme.

import { Problem, isOperators, token } from "./api.js";
import { alarm, h } from "./dom.js";
import * as identity from "./identity.js";
import { operatorView } from "./operator.js";
import { signInView } from "./sign-in.js";
import { streamView } from "./stream.js";
import { streamsView } from "./streams.js";

const main = document.getElementById("main");
let leaving = new AbortController();

/** Shows the view that the address names. */
async function show(isFirst) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const view = ["operator", "sign-in"].includes(parts[0]) ? parts[0] : "streams";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(h("p", { class: "note" }, "…"));
  try {
    const root = h("div", { class: "view" });
    if (parts[0] === "stream" && parts[1]) await streamView(root, parts[1], new URLSearchParams(query), signal);
    else if (view === "operator") await operatorView(root, signal);
    else if (view === "sign-in") signInView(root, signal);
    else await streamsView(root, signal);
    if (signal.aborted) return;
    main.replaceChildren(root);
    document.title = `${root.querySelector("h1")?.textContent ?? "Streams"} · evertally`;
    root.dispatchEvent(new Event("shown"));
    if (!isFirst) main.focus();
  } catch (problem) {
    if (signal.aborted) return;
    if (problem instanceof Problem && problem.status === 401 && token.get()) {
      token.forget();
      dressNav();
      const root = h("div", { class: "view" });
      signInView(root, signal, "The token of this tab has been revoked or has expired. Sign in with another one, or read public streams without one.");
      main.replaceChildren(root);
      return;
    }
    const words = problem instanceof Problem ? problem.message : `The service cannot be reached: ${problem.message}`;
    const hint = problem.status === 404 && !token.get() ? h("p", {}, h("a", { href: "#/sign-in" }, "Sign in"), " if you have a token for it.") : "";
    main.replaceChildren(alarm(words), hint, h("p", {}, h("a", { href: "#/" }, "All streams")));
    if (problem.status === 503 && problem.retryAfter) askAgain(problem.retryAfter, signal);
  }
}

/** Shows the view again when the service can answer, unless another one has been chosen. */
function askAgain(seconds, signal) {
  main.append(h("p", { class: "note" }, `This page asks again every ${seconds === 1 ? "second" : `${seconds} seconds`}.`));
  setTimeout(() => {
    if (signal.aborted) return;
    dressNav();
    show(false);
  }, 1000 * seconds);
}

const theme = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function dress(chosen) {
  const is = chosen ?? (prefersDark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = is;
  theme.textContent = is === "dark" ? "☀" : "☾";
  theme.setAttribute("aria-label", is === "dark" ? "Show light" : "Show dark");
  document.dispatchEvent(new Event("dressed"));
}

theme.addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("evertally-theme", next);
  dress(next);
});
prefersDark.addEventListener("change", () => dress(localStorage.getItem("evertally-theme")));
dress(localStorage.getItem("evertally-theme"));

/** The links of the header: whether this tab has a token, and whether this listener answers operators. */
function dressNav() {
  document.querySelector('[data-view="sign-in"]').textContent = token.get() ? "Signed in" : "Sign in";
  isOperators().then((is) => {
    document.querySelector('[data-view="operator"]').hidden = !is;
  }, () => {}); // the view shows the problem
}
document.addEventListener("signed", dressNav);
dressNav();

addEventListener("hashchange", () => show(false));
// The issuer sends people back here.
const returned = identity.takeAnswer();
if (returned) {
  identity.finish(returned).then(() => {
    document.dispatchEvent(new Event("signed"));
    show(true);
  }, (problem) => main.replaceChildren(alarm(problem.message), h("p", {}, h("a", { href: "#/sign-in" }, "Sign in"))));
} else show(true);
