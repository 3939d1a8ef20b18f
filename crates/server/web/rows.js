// The released rows that a chart shows, by line and step.

/** The names of a line as one text, with a separator that no name contains. */
export const key = (names) => names.join("\u001f");

export class Rows {
  #ends = new Map();
  #lines = new Map();

  constructor(stream) {
    this.columns = [...stream.group_columns, ...(stream.measure_column ? [stream.measure_column] : [])];
    this.last = 0;
  }

  add(rows) {
    for (const row of rows) {
      const line = key(this.columns.map((column) => row[column]));
      if (!this.#lines.has(line)) this.#lines.set(line, new Map());
      this.#lines.get(line).set(row.step, row);
      this.#ends.set(row.step, row.end);
      this.last = Math.max(this.last, row.step);
    }
  }

  /** Forgets steps before `before`. */
  forget(before) {
    for (const step of this.#ends.keys()) {
      if (step >= before) continue;
      this.#ends.delete(step);
      this.#lines.forEach((line) => line.delete(step));
    }
  }

  get count() {
    return this.#ends.size;
  }

  /** The last row of a line. */
  latest(line) {
    const steps = this.#lines.get(line);
    if (!steps || steps.size === 0) return null;
    return steps.get(this.last) ?? steps.get(Math.max(...steps.keys()));
  }

  /** The steps in order, and the data of a chart: times, then values, lower and upper ends of each line. */
  data(lines, isView) {
    const steps = [...this.#ends.keys()].sort((a, b) => a - b);
    const names = isView ? ["view_value", "view_lower", "view_upper"] : ["value", "lower", "upper"];
    const of = (line) => names.map((name) => steps.map((step) => this.#lines.get(line)?.get(step)?.[name] ?? null));
    const times = steps.map((step) => Date.parse(this.#ends.get(step)) / 1000);
    return { steps, data: [times, ...lines.flatMap(of)] };
  }

  row(line, step) {
    return this.#lines.get(line)?.get(step) ?? null;
  }
}
