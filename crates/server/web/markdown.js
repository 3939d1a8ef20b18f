// The Markdown of reports: headings, paragraphs, lists, tables, bold and code. It builds elements and never inserts
// HTML.

import { h } from "./dom.js";

/** A report as elements. */
export function markdown(text) {
  const blocks = text.replace(/\r/g, "").split(/\n{2,}/).flatMap((block) => split(block.split("\n")));
  return h("div", { class: "prose" }, blocks.map(block));
}

/** Headings and lists may follow each other without an empty line. */
function split(lines) {
  const blocks = [];
  for (const line of lines.filter((line) => line.trim())) {
    const kind = kindOf(line);
    const last = blocks.at(-1);
    const goesOn = last && kind !== "heading" && (last.kind === kind || (last.kind === "list" && /^\s/.test(line)));
    if (goesOn) last.lines.push(line);
    else blocks.push({ kind, lines: [line] });
  }
  return blocks;
}

function kindOf(line) {
  if (/^#{1,6} /.test(line)) return "heading";
  if (/^[-*] /.test(line)) return "list";
  if (/^\|/.test(line)) return "table";
  return "text";
}

function block({ kind, lines }) {
  if (kind === "heading") {
    const [, marks, words] = /^(#+) (.*)$/.exec(lines[0]);
    return h(`h${Math.min(marks.length + 2, 6)}`, {}, inline(words));
  }
  if (kind === "list") {
    const items = [];
    for (const line of lines) {
      if (/^[-*] /.test(line)) items.push(line.slice(2));
      else items[items.length - 1] += ` ${line.trim()}`;
    }
    return h("ul", {}, items.map((item) => h("li", {}, inline(item))));
  }
  if (kind === "table") return rows(lines);
  return h("p", {}, inline(lines.join(" ")));
}

function rows(lines) {
  const cells = (line) => line.replace(/^\||\|\s*$/g, "").split("|").map((cell) => cell.trim());
  // The line below the heads has a dash; heads may be empty.
  const [head, ...rest] = lines.filter((line) => !/^\|[\s:|-]*-[\s:|-]*\|\s*$/.test(line)).map(cells);
  const row = (tag) => (texts) => h("tr", {}, texts.map((text) => h(tag, {}, inline(text))));
  const body = h("tbody", {}, rest.map(row("td")));
  const isEmpty = head.every((text) => !text);
  return h("div", { class: "scroll", tabindex: "0" }, h("table", {}, isEmpty ? null : h("thead", {}, row("th")(head)), body));
}

function inline(text) {
  return text.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) => {
    if (part.startsWith("**")) return h("strong", {}, part.slice(2, -2));
    if (part.startsWith("`")) return h("code", {}, part.slice(1, -1));
    return part;
  });
}
