// The health of the service, for its operators.

import * as api from "./api.js";
import { Problem } from "./api.js";
import { alarm, bytes, confirmed, duration, h, number, say, table, time } from "./dom.js";
import { door, signOut } from "./sign-in.js";
import { pill } from "./streams.js";

const OFTEN = 2000;
const NO_OPERATOR = "This token does not operate the service.";
const SPENT = "The budget that it has spent stays spent: publications cannot be taken back.";

export async function operatorView(root, signal) {
  root.append(h("h1", {}, "Operator"));
  const inside = h("div");
  root.append(inside);
  await enter(inside, signal);
}

async function enter(inside, signal) {
  // A wrong token leaves the form, and its message, in place.
  const form = door("Token of an operator", signal, async () => {
    await api.json("/v1/operator", { signal }).catch((problem) => {
      throw problem instanceof Problem && problem.status === 403 ? new Error(NO_OPERATOR) : problem;
    });
    document.dispatchEvent(new Event("signed"));
    await enter(inside, signal);
  });
  if (!api.token.get()) {
    inside.replaceChildren(form);
    return;
  }
  try {
    const state = await api.json("/v1/operator", { signal });
    new Operator(inside, signal).begin(state);
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status !== 403) throw problem;
    inside.replaceChildren(alarm(NO_OPERATOR), form); // the token may still read streams
  }
}

class Operator {
  constructor(inside, signal) {
    Object.assign(this, { inside, signal });
  }

  begin(state) {
    this.before = null;
    this.problems = h("div", { "aria-live": "polite" });
    this.tiles = h("dl", { class: "tiles" });
    this.streams = h("div");
    this.tokens = h("div");
    this.inside.replaceChildren(
      this.problems,
      this.tiles,
      h("h2", {}, "Streams"),
      this.streams,
      h("h2", {}, "Open a stream"),
      opener(() => this.#look()),
      h("h2", {}, "Tokens"),
      this.tokens,
      signOut(),
    );
    this.#show(state);
    this.#tokens();
    const again = setInterval(() => document.hidden || this.#look(), OFTEN);
    this.signal.addEventListener("abort", () => clearInterval(again));
  }

  async #look() {
    try {
      this.#show(await api.json("/v1/operator", { signal: this.signal }));
    } catch (problem) {
      if (!this.signal.aborted) this.problems.replaceChildren(alarm(problem.message));
    }
  }

  #show(state) {
    const at = performance.now();
    const sum = (name) => state.streams.reduce((all, stream) => all + stream[name], 0);
    const now = { at, events: sum("events"), batches: sum("batches") };
    // The current rate, or the average until there is one.
    const rate = (name, usual) => this.before ? (1000 * Math.max(0, now[name] - this.before[name])) / (at - this.before.at) : usual;
    const rates = [rate("events", state.rates.events_per_second), rate("batches", state.rates.batches_per_second)];
    this.before = now;
    const alarms = [state.read_only, ...state.problems.filter((problem) => problem !== state.read_only)].filter(Boolean);
    const words = alarms.join("\n");
    if (words !== this.said) this.problems.replaceChildren(...(alarms.length > 0 ? alarms.map(alarm) : [h("p", { class: "well" }, "There are no problems.")]));
    this.said = words;
    const witness = state.witness
      ? [state.witness.behind ? "lagging" : "up to date", state.witness.place] : ["none", "old copies of the folder are not detected"];
    const tile = ([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, more) : null));
    this.tiles.replaceChildren(...[
      ["Events per second", number(rates[0]), `${number(now.events)} since the start`],
      ["Batches per second", number(rates[1]), `${number(now.batches)} since the start`],
      ["Late events", number(sum("late")), `${number(sum("refused"))} batches refused`],
      ["Watchers", number(state.watchers), ""],
      ["Folder", bytes(state.disk.store_bytes), state.folder],
      ["Free disk space", bytes(state.disk.free_bytes), ""],
      ["Witness", ...witness],
      ["Key", state.key.id.slice(0, 12), state.key.sealed ? "sealed with a passphrase" : "in an unsealed file"],
      ["Version", state.version, `since ${time(state.started)}`],
    ].map(tile));
    this.#streams(state.streams);
  }

  #streams(streams) {
    const heads = ["Stream", "State", ...["Open step", "Events", "Waiting", "Late", "Refused", "Lag"].map((number) => ({ number })), "Action"];
    const held = this.streams.querySelector("[tabindex]")?.scrollLeft ?? 0;
    if (this.streams.contains(document.activeElement)) return; // keep the focused element
    this.streams.replaceChildren(table("Streams", heads, streams.map((stream) => [
      h("a", { href: `#/stream/${encodeURIComponent(stream.name)}` }, stream.name),
      h("span", { title: stream.problem ?? "" }, pill(stream.state), stream.problem ? ` ${stream.problem}` : "", extended(stream)),
      ...[stream.open_step, stream.events, stream.waiting_events, stream.late, stream.refused].map((count) => ({ number: number(count) })),
      { number: duration(stream.lag_seconds) },
      this.#action(stream, streams),
    ])));
    this.streams.querySelector("[tabindex]").scrollLeft = held;
  }

  /** What an operator can do with a stream in its state. */
  #action(stream, streams) {
    if (["open", "recovering"].includes(stream.state)) {
      const why = () => [
        "This is final. The stream accepts no more events and publishes nothing more; events that are not published yet never will be.",
        SPENT,
      ];
      return asked("Retire", `Retire ${stream.name}?`, why, "Retire for good", async () => {
        await api.json(`${api.stream(stream.name)}/retire`, { method: "POST" });
        say(`${stream.name} is retired`);
        this.#look();
      });
    }
    const [, first, place] = /^(.*?)(?: #(\d+))?$/.exec(stream.name);
    const isExtended = streams.some(({ name }) => name === `${first} #${Number(place ?? 1) + 1}`);
    if (stream.state !== "ended" || isExtended) return "";
    return asked("Extend", `Extend ${stream.name}?`, () => costOfExtension(stream.name), "Extend and spend again", async () => {
      const next = await api.json(`${api.stream(stream.name)}/extend`, { method: "POST" });
      say(`${next.name} is open`);
      this.#look();
    });
  }

  async #tokens() {
    const { tokens } = await api.json("/v1/tokens", { signal: this.signal });
    const role = h("input", { id: "role", required: true, placeholder: "write:STREAM, read:STREAM, read:* or operate" });
    const label = h("input", { id: "label", placeholder: "the owner of the token" });
    const made = h("p", { "aria-live": "polite" });
    const form = h("form", { class: "line", onsubmit: async (event) => {
      event.preventDefault();
      try {
        const { token } = await api.json("/v1/tokens", { method: "POST", body: { role: role.value.trim(), label: label.value.trim() } });
        await this.#tokens();
        this.tokens.append(h("p", { class: "well", role: "status" }, "Shown once, here: ", h("code", {}, token)));
      } catch (problem) {
        made.replaceChildren(alarm(problem.message));
      }
    } }, h("label", { for: "role" }, "Role"), role, h("label", { for: "label" }, "Label"), label, h("button", { type: "submit" }, "Create token"));
    const own = api.token.get()?.split("_")[1];
    const isLast = tokens.filter(({ role }) => role === "operate").length === 1;
    const rows = tokens.map((token) => [h("code", {}, token.id), token.role, token.label, time(token.made),
      isLast && token.role === "operate" ? h("span", { class: "note" }, "the last operator’s, which stays") : asked(
        "Revoke", `Revoke token ${token.id}?`, () => [
          `It allows ${token.role}${token.label ? `, and is labelled “${token.label}”` : ""}. It is refused from the next request on, permanently.`,
          token.id === own ? "This is the token of this tab: you will be signed out." : null,
        ], "Revoke", async () => {
          await api.text(`/v1/tokens/${token.id}`, { method: "DELETE" });
          if (token.id === own) {
            api.token.forget();
            document.dispatchEvent(new Event("signed"));
            location.hash = "#/";
            return;
          }
          await this.#tokens();
          say("The token is revoked");
        })]);
    this.tokens.replaceChildren(table("Tokens", ["Token", "Role", "Label", "Created", "Action"], rows), form, made);
  }
}

/** A button that asks for confirmation, with the cost. */
function asked(word, question, paragraphs, yes, then) {
  return h("button", { type: "button", class: "quiet", onclick: async ({ target }) => {
    try {
      if (!(await confirmed(question, await paragraphs(), yes))) return;
      target.disabled = true;
      await then();
    } catch (problem) {
      target.replaceWith(alarm(problem.message));
    }
  } }, word);
}

/** Whether a stream is extended without a request. */
function extended({ extensions_left: left }) {
  if (left === null) return "";
  const often = left === 0 ? "no more" : left === 12 ? "12 times or more" : left === 1 ? "once" : `${left} times`;
  return h("span", { class: "note" }, ` extends automatically: ${often}`);
}

/** The cost of extending a stream, in paragraphs. */
async function costOfExtension(name) {
  const [stream, { sources }] = await Promise.all([api.json(api.stream(name)), api.json("/v1/sources")]);
  const source = sources.find(({ name }) => name === stream.source);
  return [
    `A new stream covers ${stream.steps === null ? "as many" : number(stream.steps)} more steps of ${stream.every}, and continues from the last values.`,
    stream.person_column
      ? `It spends its budget again, for anyone with events in both: ${stream.guarantee.words}`
      : `Each event is in one of the two streams, and keeps its guarantee: ${stream.guarantee.words} People with events in both are protected less.`,
    source ? `Its budget is taken from source ${source.name} for good: ${source.spent} of ${source.total} is spent, and ${source.left} is left now.` : null,
  ];
}

const EXAMPLE = `{
  "stream": "visits",
  "time": "time",
  "start": "${new Date(Date.now() + 86400e3).toISOString().slice(0, 10)}",
  "every": "1h",
  "unbounded": true,
  "rho": 0.5
}`;

/** The form that opens a stream, after a preview. */
function opener(opened) {
  const source = h("select", { id: "source" }, h("option", { value: "" }, "none"));
  api.json("/v1/sources").then(({ sources }) =>
    source.append(...sources.map(({ name, left }) => h("option", { value: name }, `${name} (left: ${left})`))), () => {});
  const declaration = h("textarea", { id: "declaration", rows: 10, spellcheck: false });
  declaration.value = EXAMPLE;
  const isPublic = h("input", { type: "checkbox", id: "public" });
  const said = h("div", { "aria-live": "polite" });
  const ask = async (isDry, previewed) => {
    said.replaceChildren(h("p", { class: "note" }, "Planning…"));
    try {
      const body = previewed ?? { declaration: parsed(declaration.value), public: isPublic.checked, source: source.value || null };
      const found = await api.json(`/v1/streams?dry-run=${isDry}`, { method: "POST", body });
      if (!isDry) {
        said.replaceChildren(h("p", { class: "well" }, `Stream ${found.name} is open.`));
        opened();
        return;
      }
      const picture = found.picture
        ? h("img", { src: `data:image/svg+xml,${encodeURIComponent(found.picture)}`, alt: "The error over time", class: "picture" }) : null;
      said.replaceChildren(
        h("p", {}, `${found.mechanism}: standard error at most ${number(found.max_std_error)}, ${number(found.mean_std_error)} on average, under ${found.budget} for ${found.unit}.`,
          body.source ? ` Source ${body.source} has ${found.left} left after it.` : ""),
        ...[picture].filter(Boolean),
        h("details", {}, h("summary", {}, "The plan"), h("pre", {}, found.plan)),
        h("button", { type: "button", onclick: async () => {
          if (await confirmed(`Open ${found.name}?`, costOf(found, body), "Open and spend")) ask(false, body);
        } }, "Open the stream: this spends its budget"),
      );
    } catch (problem) {
      said.replaceChildren(alarm(problem.message));
    }
  };
  return h("form", { class: "opener", onsubmit: (event) => {
    event.preventDefault();
    ask(true);
  } },
  h("label", { for: "declaration" }, "Declaration, as JSON"), declaration,
  h("label", {}, "Source of the data, whose budget it spends ", source),
  h("label", {}, isPublic, " public: anybody may read it"),
  h("button", { type: "submit" }, "Preview"), said);
}

function parsed(declaration) {
  try {
    return JSON.parse(declaration);
  } catch (error) {
    throw new Error(`The declaration is not JSON: ${error.message}`);
  }
}

/** The cost of opening a previewed stream, in paragraphs. */
function costOf(found, { source, public: isPublic }) {
  return [
    `It spends ${found.budget} for ${found.unit}, for good: nothing that happens to the stream later gives it back.`,
    source ? `Source ${source} has ${found.left} left after it.` : "It has no source, so no total limits what all streams of these data spend together.",
    isPublic ? "Anybody may read it." : "Only tokens may read it.",
    "Its plan and its budget cannot be changed once it is open.",
  ];
}
