// Elements, numbers and times for people.

/** An element: `h("p", {class: "note"}, "text", element)`; properties that begin with `on` are listeners. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return put(element, ...children);
}

/** Appends those children that are not empty. */
export function put(element, ...children) {
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Announces a text to screen readers. */
export function say(words) {
  document.getElementById("said").textContent = words;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(value) : precise.format(value);
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = Math.min(count > 0 ? Math.floor(Math.log2(count) / 10) : 0, units.length - 1);
  return `${precise.format(count / 1024 ** at)} ${units[at]}`;
}

/** A time such as `2013-01-01T00:00:00-05:00` as `2013-01-01 00:00 UTC-05:00`; for days, only the date. */
export function time(text, isDate = false) {
  if (!text) return "–";
  const [date, clock = ""] = text.split("T");
  if (isDate && clock.startsWith("00:00")) return date;
  const zone = /[+-]\d\d:\d\d$/.exec(clock)?.[0] ?? "";
  return `${date} ${clock.slice(0, 5)} UTC${zone === "+00:00" ? "" : zone}`;
}

/** Whether the steps of a stream are days or longer. */
export const isOfDays = (stream) => /(d|w|mo|y)$/.test(stream.every);

/** A duration, from seconds. */
export function duration(seconds) {
  if (seconds < 1) return "none";
  for (const [name, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 2 * length) return `${number(Math.floor(seconds / length))} ${name}`;
  }
  return `${number(Math.floor(seconds))} s`;
}

/** A box with an error message. */
export function alarm(words) {
  return h("p", { class: "alarm", role: "alert" }, words);
}

/** Asks for a confirmation, with paragraphs about its consequences; resolves to whether it was given. */
export function confirmed(question, paragraphs, word) {
  return new Promise((decided) => {
    const dialog = h("dialog", { "aria-labelledby": "question", onclose: () => {
      decided(dialog.returnValue === "yes");
      dialog.remove();
    } },
    h("h2", { id: "question" }, question),
    ...paragraphs.filter(Boolean).map((words) => h("p", {}, words)),
    h("form", { method: "dialog", class: "line" },
      h("button", { value: "no", autofocus: true }, "Cancel"),
      h("button", { value: "yes", class: "grave" }, word)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A table; cells of numbers are `{number: …}`. On narrow screens each row is a block, and its cells name their column:
 * roles keep it a table there. */
export function table(caption, heads, rows) {
  const cell = (tag) => (content, at) => {
    const isNumber = content !== null && typeof content === "object" && "number" in content;
    const properties = {
      class: isNumber ? "number" : null,
      role: tag === "th" ? "rowheader" : "cell",
      scope: tag === "th" ? "row" : null,
      "data-head": typeof heads[at] === "object" ? heads[at].number : heads[at],
    };
    return h(tag, properties, isNumber ? content.number : content);
  };
  const row = (cells) => h("tr", { role: "row" }, cells.map((content, at) => cell(at === 0 ? "th" : "td")(content, at)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table", class: "folding" }, h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map((head) => {
        const isNumber = typeof head === "object";
        return h("th", { role: "columnheader", scope: "col", class: isNumber ? "number" : null }, isNumber ? head.number : head);
      }))),
      h("tbody", { role: "rowgroup" }, rows.map(row))),
  );
}
