// All readable streams.

import * as api from "./api.js";
import { h, isOfDays, number, time } from "./dom.js";

/** A card for each stream, with the budgets of their sources. */
export async function streamsView(root, signal) {
  const [{ streams }, { sources }] = await Promise.all([
    api.json("/v1/streams", { signal }),
    api.json("/v1/sources", { signal }),
  ]);
  root.append(h("h1", {}, "Streams"));
  if (streams.length === 0) {
    root.append(h("p", { class: "note" }, api.token.get() ? "This token reads no stream." : "No stream is public here."));
  }
  if (!api.token.get()) {
    root.append(h("p", { class: "note" }, h("a", { href: "#/sign-in" }, "Sign in"), " with a token to read streams that are not public."));
  }
  root.append(h("ul", { class: "cards" }, streams.map(card)));
  if (sources.length > 0) root.append(h("h2", {}, "Budgets of the sources"), ...sources.map(budget));
}

function card(stream) {
  const until = stream.published_until ? `published until ${time(stream.published_until, isOfDays(stream))}` : "nothing published yet";
  const groups = stream.group_count > 1 ? ` · ${number(stream.group_count)} lines` : "";
  return h("li", { class: "card" },
    h("h2", {}, h("a", { href: `#/stream/${encodeURIComponent(stream.name)}` }, stream.title || stream.name)),
    h("p", {}, stream.quantity),
    h("p", { class: "note" }, pill(stream.state), ` every ${stream.every} · ${until}${groups}`,
      stream.public ? null : " · not public"));
}

/** The state of a stream, as a word and a colour. */
export function pill(state) {
  return h("span", { class: `pill ${state}` }, state);
}

/** The spent budget of a source: for operators by all streams, for others by the streams that they may read. */
export function budget(source) {
  const id = `budget-${source.name}`;
  const name = h("strong", {}, source.name);
  if (source.left === null) {
    return h("div", { class: "budget" },
      h("p", { id }, name, ` – ${source.streams.join(", ")}: ${source.spent} of ${source.total}`));
  }
  const share = Math.min(Math.max(source.spent_share, 0), 1);
  return h("div", { class: "budget" },
    h("p", { id }, name, ` – spent ${source.spent} of ${source.total}; left ${source.left}`),
    h("meter", { min: "0", max: "1", high: "0.9", value: String(share), "aria-labelledby": id }, `${Math.round(100 * share)} %`));
}
