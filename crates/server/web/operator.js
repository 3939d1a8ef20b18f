// The health of the service, for its operators.

import * as api from "./api.js";
import { Problem } from "./api.js";
import { alarm, bytes, duration, h, number, say, table, time } from "./dom.js";
import { pill } from "./streams.js";

const OFTEN = 2000;

export async function operatorView(root, signal) {
  root.append(h("h1", {}, "Operator"));
  const inside = h("div");
  root.append(inside);
  await enter(inside, signal);
}

async function enter(inside, signal) {
  if (!api.token.get()) {
    inside.replaceChildren(door(inside, signal));
    return;
  }
  try {
    const state = await api.json("/v1/operator", { signal });
    new Operator(inside, signal).begin(state);
  } catch (problem) {
    if (!(problem instanceof Problem) || ![401, 403].includes(problem.status)) throw problem;
    api.token.forget();
    const why = problem.status === 403 ? "This token does not operate the service." : "This token is not valid: it is wrong or was revoked.";
    inside.replaceChildren(alarm(why), door(inside, signal));
  }
}

/** The form for the token, which stays in this tab. */
function door(inside, signal) {
  const field = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true, placeholder: "evt_…" });
  return h("form", { class: "door", onsubmit: (event) => {
    event.preventDefault();
    api.token.set(field.value.trim());
    enter(inside, signal).catch((problem) => inside.replaceChildren(alarm(problem.message)));
  } },
  h("label", { for: "token" }, "Token of an operator"),
  field,
  h("button", { type: "submit" }, "Open"),
  h("p", { class: "note" }, "The token is kept in this tab until the tab is closed. Create one with ",
    h("code", {}, "evertally token make --config FILE --role operate"), "."));
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
      h("p", {}, h("button", { type: "button", class: "quiet", onclick: () => {
        api.token.forget();
        location.hash = "#/";
      } }, "Sign out: forget the token of this tab")),
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
      h("span", { title: stream.problem ?? "" }, pill(stream.state), stream.problem ? ` ${stream.problem}` : ""),
      ...[stream.open_step, stream.events, stream.waiting_events, stream.late, stream.refused].map((count) => ({ number: number(count) })),
      { number: duration(stream.lag_seconds) },
      ["open", "recovering"].includes(stream.state) ? asked("Retire", `Retire ${stream.name} for good?`, async () => {
        await api.json(`${api.stream(stream.name)}/retire`, { method: "POST" });
        say(`${stream.name} is retired`);
        this.#look();
      }) : "",
    ])));
    this.streams.querySelector("[tabindex]").scrollLeft = held;
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
    const rows = tokens.map((token) => [h("code", {}, token.id), token.role, token.label, time(token.made),
      asked("Revoke", `Revoke ${token.id} (${token.role})?`, async () => {
        await api.text(`/v1/tokens/${token.id}`, { method: "DELETE" });
        await this.#tokens();
        say("The token is revoked");
      })]);
    this.tokens.replaceChildren(table("Tokens", ["Token", "Role", "Label", "Created", "Action"], rows), form, made);
  }
}

/** A button that asks for confirmation. */
function asked(word, question, then) {
  return h("button", { type: "button", class: "quiet", onclick: async (event) => {
    if (!confirm(question)) return;
    event.target.disabled = true;
    await then().catch((problem) => event.target.replaceWith(alarm(problem.message)));
  } }, word);
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
  const declaration = h("textarea", { id: "declaration", rows: 10, spellcheck: false });
  declaration.value = EXAMPLE;
  const isPublic = h("input", { type: "checkbox", id: "public" });
  const said = h("div", { "aria-live": "polite" });
  const ask = async (isDry) => {
    said.replaceChildren(h("p", { class: "note" }, "Planning…"));
    try {
      let declared;
      try {
        declared = JSON.parse(declaration.value);
      } catch (error) {
        throw new Error(`The declaration is not JSON: ${error.message}`);
      }
      const body = { declaration: declared, public: isPublic.checked };
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
          found.left ? ` ${found.left}` : ""),
        ...[picture].filter(Boolean),
        h("details", {}, h("summary", {}, "The plan"), h("pre", {}, found.plan)),
        h("button", { type: "button", onclick: () => ask(false) }, "Open the stream: this spends its budget"),
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
  h("label", {}, isPublic, " public: anybody may read it"),
  h("button", { type: "submit" }, "Preview"), said);
}
