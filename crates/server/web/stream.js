// One stream: its chart, its numbers, and its guarantee.

import * as api from "./api.js";
import { COLOURS, Chart } from "./chart.js";
import { alarm, h, isOfDays, number, put, say, table, time as timeOf } from "./dom.js";
import { markdown } from "./markdown.js";
import { Rows, key } from "./rows.js";
import { budget, pill } from "./streams.js";

/** The most points of a line; the service omits some in long ranges. */
const POINTS = 1500;
const MOST_IN_TABLE = 200;
const SAY_AGAIN = 20_000;
const RANGES = [["Day", 86400], ["Week", 7 * 86400], ["4 weeks", 28 * 86400], ["Year", 366 * 86400], ["All", Infinity]];

export async function streamView(root, name, query, signal) {
  const stream = await api.json(api.stream(name), { signal });
  const { sources } = await api.json("/v1/sources", { signal });
  await new StreamView(root, stream, sources, query, signal).begin();
}

class StreamView {
  constructor(root, stream, sources, query, signal) {
    Object.assign(this, { root, stream, signal });
    this.source = sources.find((source) => source.name === stream.source);
    this.range = RANGES.find(([word]) => word === query.get("range")) ?? RANGES.at(-1);
    this.measure = stream.measures.includes(query.get("measure")) ? query.get("measure") : stream.measures[0];
    this.wanted = query.getAll("group");
    this.isView = false;
    this.rows = new Rows(stream);
    this.time = (text) => timeOf(text, isOfDays(stream));
    this.chart = new Chart({ zone: stream.zone, signal, point: (at, isKey) => this.#point(at, isKey) });
  }

  async begin() {
    const { stream } = this;
    this.state = h("p", { class: "note" });
    this.lost = h("p", { class: "alarm", hidden: true }, "The connection is lost; reconnecting.");
    this.readout = h("div", { class: "readout" });
    this.numbers = h("div");
    this.#choose(await this.#names());
    this.groups = h("fieldset", { class: "groups" });
    put(
      this.root,
      h("h1", {}, stream.title || stream.name),
      h("p", { class: "lead" }, stream.quantity),
      this.state,
      this.lost,
      h("blockquote", { class: "promise" }, stream.guarantee.words),
      h("div", { class: "controls" }, this.#ranges(), this.#measures(), this.#views()),
      this.readout,
      this.chart.element,
      this.groups,
      h("h2", {}, "Last published values"),
      this.numbers,
      this.source ? [h("h2", {}, "Budget"), budget(this.source)] : null,
      h("h2", {}, "Downloads"),
      this.#downloads(),
      this.#folded("The privacy guarantee, and what a reader may conclude", async () =>
        markdown(await api.text(`${api.stream(stream.name)}/report`))),
      this.#folded("The plan: everything that was decided before the first event", async () =>
        h("pre", {}, await api.text(`${api.stream(stream.name)}/plan`))),
    );
    this.#offerGroups();
    await this.#load();
    // A chart needs its width, which is known only once it is in the page.
    this.root.addEventListener("shown", () => {
      this.#draw();
      this.#follow();
    });
  }

  /** The names of all selectable lines; if not all are shown, those with the largest values come first. */
  async #names() {
    const { stream } = this;
    const width = stream.measure_column ? -1 : undefined;
    const names = new Map(stream.groups.map((line) => [key(line.slice(0, width)), line.slice(0, width)]));
    if (names.size > COLOURS && stream.published > 0) {
      const latest = new Rows(stream);
      const query = new URLSearchParams({ from: stream.published, to: stream.published });
      if (this.measure) query.set("measure", this.measure);
      latest.add((await api.json(`${api.stream(stream.name)}/releases?${query}`, { signal: this.signal })).rows);
      const size = (parts) => latest.latest(key(this.measure ? [...parts, this.measure] : parts))?.value ?? -Infinity;
      return [...names].sort(([, a], [, b]) => size(b) - size(a));
    }
    return [...names];
  }

  #choose(names) {
    this.names = new Map(names);
    const known = names.filter(([, parts]) => this.wanted.includes(parts.join("/"))).map(([group]) => group);
    const usual = names.length > COLOURS ? 5 : COLOURS;
    this.chosen = (known.length > 0 ? known : names.map(([group]) => group).slice(0, usual)).slice(0, COLOURS);
    this.places = new Map(this.chosen.map((group, place) => [group, place]));
  }

  /** A line of the table: a group, with the selected measure. */
  #line(group) {
    return this.measure ? key([...this.names.get(group), this.measure]) : group;
  }

  /** The average length of a step in seconds. */
  #seconds() {
    const { start, published, published_until: until } = this.stream;
    return published > 0 ? (Date.parse(until) - Date.parse(start)) / 1000 / published : 1;
  }

  #first() {
    const count = this.range[1] / this.#seconds();
    return Number.isFinite(count) ? Math.max(1, this.stream.published - Math.ceil(count) + 1) : 1;
  }

  #query(from, to) {
    const query = new URLSearchParams({ from, to });
    for (const group of this.chosen) {
      if (this.stream.group_columns.length > 0) query.append("group", JSON.stringify(this.names.get(group)));
    }
    if (this.measure) query.set("measure", this.measure);
    return query;
  }

  async #load() {
    const { stream } = this;
    const asked = {};
    this.asked = asked;
    this.rows = new Rows(stream);
    if (stream.published > 0 && this.chosen.length > 0) {
      const from = this.#first();
      const query = this.#query(from, stream.published);
      query.set("every", Math.max(1, Math.ceil((stream.published - from + 1) / POINTS)));
      const found = await api.json(`${api.stream(stream.name)}/releases?${query}`, { signal: this.signal });
      if (this.asked !== asked) return;
      this.rows.add(found.rows);
    }
    this.#draw();
  }

  #draw() {
    const lines = this.chosen.map((group) => this.#line(group));
    const { steps, data } = this.rows.data(lines, this.isView);
    this.steps = steps;
    const shown = this.chosen.map((group) => ({ name: this.#word(group), place: this.places.get(group) }));
    const words = steps.length === 0 ? "Nothing is published yet."
      : `${this.stream.title}: ${shown.map(({ name }) => name).join(", ")}, until ${this.time(this.stream.published_until)}. `
        + "Arrow keys read the points.";
    this.chart.draw(shown, data, words);
    this.#tell();
    this.#point(null);
  }

  #word(group) {
    return this.names.get(group).join(", ") || this.measure || "all events";
  }

  #tell() {
    const { stream } = this;
    const next = stream.next_publication ? ` · next at ${this.time(stream.next_publication)}` : "";
    const until = stream.published > 0
      ? `published until ${this.time(stream.published_until)}` : "nothing is published yet";
    this.state.replaceChildren(pill(stream.state), ` ${until}${next} · every ${stream.every} · time zone ${stream.zone} · ${stream.mechanism}`);
    const per = Math.round(100 * stream.confidence);
    const column = stream.group_columns.join(", ") || "Line";
    const rows = this.chosen.slice(0, MOST_IN_TABLE).map((group) => {
      const row = this.rows.latest(this.#line(group));
      return [this.#word(group), ...["value", "std_error", "lower", "upper"].map((name) => ({ number: number(row?.[name]) }))];
    });
    const heads = [column, { number: "Value" }, { number: "Standard error" }, { number: `${per} % from` }, { number: "to" }];
    this.numbers.replaceChildren(table("Last published values", heads, rows));
  }

  /** Shows the values under the cursor, or the last published values. */
  #point(at, isKey = false) {
    const step = at === null || at === undefined ? this.steps?.at(-1) : this.steps[at];
    const when = this.chosen.map((group) => this.rows.row(this.#line(group), step)?.end).find(Boolean);
    const parts = this.chosen.map((group) => {
      const row = this.rows.row(this.#line(group), step);
      const value = this.isView ? row?.view_value : row?.value;
      const half = row ? ` ± ${number((row.upper - row.lower) / 2)}` : "";
      return [this.places.get(group), this.#word(group), `${number(value)}${this.isView ? "" : half}`];
    });
    const one = ([place, word, value]) => h("span", {}, swatch(place), ` ${word} `, h("b", {}, value));
    this.readout.replaceChildren(h("span", { class: "note" }, this.time(when)), ...parts.map(one));
    if (isKey) say(`${this.time(when)}: ${parts.map(([, word, value]) => `${word} ${value}`).join(", ")}`);
  }

  async #follow() {
    const { stream, signal } = this;
    let said = Date.now();
    const lost = (is) => { this.lost.hidden = !is; };
    for await (const { event, data } of api.watch(stream.name, stream.published || null, signal, lost)) {
      if (event === "state") {
        Object.assign(stream, data);
        if (stream.group_count !== this.names.size && stream.discovered) this.#offerGroups();
        this.#tell();
        continue;
      }
      if (event !== "published" || data.publication <= stream.published) continue;
      const isNew = (names) => !this.names.has(key(names));
      stream.published = data.publication;
      stream.published_until = data.end;
      stream.next_publication = null;
      const rows = data.rows ?? (await api.json(
        `${api.stream(stream.name)}/releases?${this.#query(data.publication, data.publication)}`, { signal })).rows;
      this.rows.add(rows);
      if (stream.discovered && data.rows) this.#discover(rows, isNew);
      const from = this.#first();
      if (from > 1) this.rows.forget(from);
      if (this.rows.count > 2 * POINTS) await this.#load();
      this.#soon();
      if (Date.now() - said > SAY_AGAIN) {
        said = Date.now();
        say(`Published until ${this.time(data.end)}`);
      }
    }
  }

  /** Draws soon, once for all messages of the meantime. */
  #soon() {
    if (this.waits) return;
    this.waits = true;
    setTimeout(() => requestAnimationFrame(() => {
      this.waits = false;
      if (!this.signal.aborted) this.#draw();
    }), 200);
  }

  #discover(rows, isNew) {
    const columns = this.stream.group_columns;
    const found = rows.map((row) => columns.map((column) => row[column])).filter(isNew);
    if (found.length === 0) return;
    for (const names of found) this.names.set(key(names), names);
    if (this.chosen.length < COLOURS) this.#toggle(key(found[0]), true);
    this.#offerGroups();
  }

  // Selectable options.

  #ranges() {
    const all = this.stream.steps === null ? Infinity : this.#seconds() * this.stream.steps;
    const offered = RANGES.filter(([, seconds]) => seconds === Infinity || (seconds < all && seconds >= 4 * this.#seconds()));
    const button = (range) => h("button", {
      type: "button",
      "aria-pressed": String(range === this.range),
      onclick: (event) => {
        this.range = range;
        event.target.parentElement.querySelectorAll("button").forEach((other) =>
          other.setAttribute("aria-pressed", String(other === event.target)));
        this.#changed();
      },
    }, range[0]);
    return h("div", { class: "segments", role: "group", "aria-label": "Range" }, offered.map(button));
  }

  #measures() {
    const { stream } = this;
    if (stream.measures.length === 0) return null;
    const option = (measure) => h("option", { value: measure, selected: measure === this.measure }, measure);
    const select = h("select", { onchange: (event) => {
      this.measure = event.target.value;
      this.#changed();
    } }, stream.measures.map(option));
    return h("label", {}, `${stream.measure_column} `, select);
  }

  #views() {
    if (!this.stream.has_views) return null;
    const box = h("input", { type: "checkbox", onchange: (event) => {
      this.isView = event.target.checked;
      this.#draw();
    } });
    return h("label", {}, box, " show the view");
  }

  #offerGroups() {
    const { stream } = this;
    if (stream.group_columns.length === 0 || this.names.size < 2) return;
    const list = h("div", { class: "chips" });
    const fill = (filter) => {
      const fits = [...this.names.keys()].filter((group) => this.#word(group).toLowerCase().includes(filter.toLowerCase()));
      const first = [...new Set([...this.chosen, ...fits])].filter((group) => filter === "" || fits.includes(group));
      list.replaceChildren(...first.slice(0, 40).map((group) => this.#chip(group)),
        first.length > 40 ? h("span", { class: "note" }, `and ${number(first.length - 40)} more`) : "");
    };
    const filter = this.names.size <= 12 ? null
      : h("input", { type: "search", placeholder: "Find a group", "aria-label": "Find a group", oninput: (event) => fill(event.target.value) });
    const more = stream.more_groups ? " (the first thousand)" : "";
    this.groups.replaceChildren(h("legend", {}, `${stream.group_columns.join(", ")}${more}`), filter ?? "", list);
    fill("");
  }

  #chip(group) {
    const isChosen = this.places.has(group);
    const chip = h("button", { type: "button", class: "chip", "aria-pressed": String(isChosen), onclick: () => {
      if (!this.#toggle(group, !this.places.has(group))) return;
      this.#offerGroups();
      [...this.groups.querySelectorAll(".chip")].find((other) => other.dataset.group === group)?.focus();
      this.#changed();
    } }, isChosen ? swatch(this.places.get(group)) : h("span", { class: "swatch none" }), ` ${this.#word(group)}`);
    chip.dataset.group = group;
    return chip;
  }

  /** Adds a group to the chart or removes it; the last one stays. */
  #toggle(group, isWanted) {
    if (!isWanted && this.chosen.length > 1) {
      this.places.delete(group);
      this.chosen = this.chosen.filter((other) => other !== group);
      return true;
    }
    if (!isWanted || this.chosen.length >= COLOURS) {
      say(isWanted ? `At most ${COLOURS} groups are drawn at once` : "At least one group must stay");
      return false;
    }
    const taken = new Set(this.places.values());
    this.places.set(group, [...Array(COLOURS).keys()].find((place) => !taken.has(place)));
    this.chosen.push(group);
    return true;
  }

  #changed() {
    const query = new URLSearchParams({ range: this.range[0] });
    if (this.measure) query.set("measure", this.measure);
    if (this.names.size > 1) this.chosen.forEach((group) => query.append("group", this.names.get(group).join("/")));
    history.replaceState(null, "", `#/stream/${encodeURIComponent(this.stream.name)}?${query}`);
    this.downloads.replaceWith(this.#downloads());
    this.#load().catch((problem) => {
      if (!this.signal.aborted) this.readout.replaceChildren(alarm(problem.message));
    });
  }

  #downloads() {
    const { stream } = this;
    const path = api.stream(stream.name);
    const of = (word, target, file) => h("a", { href: target, download: file, onclick: async (event) => {
      if (!api.token.get()) return;
      // A link cannot send a token.
      event.preventDefault();
      const url = URL.createObjectURL(await api.blob(target));
      h("a", { href: url, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } }, word);
    const from = this.#first();
    const all = (format) => `${path}/releases?from=${from}&to=${Math.max(stream.published, 1)}&format=${format}`;
    const query = stream.published > 0 ? `?${this.#query(from, stream.published)}` : "";
    this.downloads = h("p", { class: "downloads" },
      ...["csv", "json", "parquet", "arrow"].map((format) => of(format === "json" ? "JSON" : format === "csv" ? "CSV" : format[0].toUpperCase() + format.slice(1), all(format), `${stream.name}.${format}`)),
      of("Picture (SVG)", `${path}/picture.svg${query}`, `${stream.name}.svg`),
      of("Picture (PNG)", `${path}/picture.png${query}`, `${stream.name}.png`));
    return this.downloads;
  }

  #folded(title, content) {
    const inside = h("div");
    return h("details", { ontoggle: async (event) => {
      if (!event.target.open || inside.childElementCount > 0) return;
      inside.replaceChildren(await content().catch((problem) => alarm(problem.message)));
    } }, h("summary", {}, title), inside);
  }
}

function swatch(place) {
  return h("span", { class: `swatch line-${place}` });
}
