// A chart of released values with their intervals, with keyboard control.

import uPlot from "./uPlot.esm.js";
import { h } from "./dom.js";

const HEIGHT = 380;
const LOWEST = 240;
export const COLOURS = 8;

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of a line, from the style sheet. */
export const colour = (place) => style(`--line-${place % COLOURS}`);

// The format of times below the chart: by their distance, and at the start of a year, day or minute.
const TIMES = [
  [365 * 86400, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * 86400, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
];

/** Times in the time zone of a stream, if the browser knows it. */
function dates(zone) {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone);
  } catch {
    return (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
  }
}

export class Chart {
  /** `point(index)` is called for the point under the cursor, and with `null` if there is none. */
  constructor({ zone, point, signal }) {
    this.date = dates(zone);
    this.point = point;
    this.lines = [];
    this.data = [[]];
    this.element = h("div", { class: "chart", tabindex: "0", role: "img", onkeydown: (event) => this.#key(event) });
    const resizing = new ResizeObserver(() => this.plot?.setSize(this.#size()));
    resizing.observe(this.element);
    const redress = () => this.#build();
    document.addEventListener("dressed", redress);
    signal.addEventListener("abort", () => {
      resizing.disconnect();
      document.removeEventListener("dressed", redress);
      this.plot?.destroy();
    });
  }

  /** Draws lines `{name, place}`; data: times, then values, lower and upper ends of each line. */
  draw(lines, data, label) {
    const same = lines.length === this.lines.length && lines.every((line, at) => line.name === this.lines[at].name);
    [this.lines, this.data] = [lines, data];
    this.element.setAttribute("aria-label", label);
    if (same && this.plot) this.plot.setData(data);
    else this.#build();
  }

  #size() {
    const width = Math.max(this.element.clientWidth, 200);
    return { width, height: width < 600 ? LOWEST + 40 : HEIGHT };
  }

  #build() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.element.isConnected || this.lines.length === 0) return;
    const [grid, text] = [style("--grid"), style("--muted")];
    const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif" };
    const series = [{}];
    const bands = [];
    this.lines.forEach(({ name, place }, at) => {
      const stroke = colour(place);
      series.push(
        { label: name, stroke, width: 1.75, points: { show: (plot) => plot.data[0].length < 60, size: 5, fill: stroke } },
        { label: `${name}, lower`, stroke: "transparent", points: { show: false } },
        { label: `${name}, upper`, stroke: "transparent", points: { show: false } },
      );
      bands.push({ series: [3 * at + 3, 3 * at + 2], fill: `${stroke}33` });
    });
    const number = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
    const options = {
      ...this.#size(),
      tzDate: this.date,
      legend: { show: false },
      cursor: { y: false, points: { show: (_, at) => at % 3 === 1 ? undefined : false }, drag: { x: true, y: false } },
      scales: { y: { range: { min: { pad: 0.05, soft: 0, mode: 2 }, max: { pad: 0.05, soft: 0, mode: 2 } } } },
      axes: [{ ...axis, values: TIMES }, { ...axis, size: 66, values: (_, all) => all.map((value) => number.format(value)) }],
      series,
      bands,
      hooks: { setCursor: [(plot) => this.point(plot.cursor.idx ?? null)] },
    };
    this.plot = new uPlot(options, this.data, this.element);
  }

  /** Arrow keys move from point to point, page keys further. */
  #key(event) {
    const last = this.data[0].length - 1;
    if (!this.plot || last < 0) return;
    const at = this.at ?? last;
    const far = Math.max(1, Math.round(last / 20));
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -last, End: last };
    if (event.key === "Escape") {
      this.at = null;
      this.plot.setCursor({ left: -10, top: -10 });
      return;
    }
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.at = Math.min(Math.max(at + steps[event.key], 0), last);
    const value = this.data[1]?.[this.at] ?? 0;
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][this.at], "x"), top: this.plot.valToPos(value, "y") });
    this.point(this.at, true);
  }
}
