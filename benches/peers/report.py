"""Writes the tables and the picture of a run: `python report.py results.json`.

The tables go into docs/benchmarks.md between two markers, the picture into docs/images/benchmarks.svg and .png. Both
are generated completely.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

from drawing import draw

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- peers: begin (written by benches/peers/report.py) -->"
END = "<!-- peers: end -->"
FRAME = f"""# Benchmarks

{BEGIN}
{END}
"""
HEADINGS = {
    "normals": "Float32 normals alone, 100,000 at a time",
    "scalar": "One running sum, horizon 2²⁰",
    "figure5": "10,000 coordinates, every step of the horizon",
    "wide": "1 and 10 million coordinates, horizon 2048, added to a gradient",
}


def measured(report: dict, setting: str) -> list[dict]:
    return [row for row in report["results"] if row["setting"] == setting and "ns" in row]


def bold_if_ours(row: dict) -> str:
    return f"**{row['label']}**" if row["label"].startswith("evertally") else row["label"]


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def flat_table(rows: list[dict], unit: str) -> list[str]:
    """One line for each peer, the fastest first."""
    lines = [line(["", unit, "memory, MiB"]), "|---|---:|---:|"]
    for row in sorted(rows, key=lambda row: row["ns"]):
        lines.append(line([bold_if_ours(row), number(row["ns"]), f"{row['peak_bytes'] / 2**20:.0f}"]))
    return lines


def grid_table(rows: list[dict], column: str, head: str) -> list[str]:
    """One line for each peer, one pair of columns for each horizon or number of coordinates."""
    columns = sorted({row[column] for row in rows})
    cells = {(row["label"], row[column]): row for row in rows}
    labels = list(dict.fromkeys(row["label"] for row in rows))
    largest = columns[-1]
    labels.sort(key=lambda label: cells[label, largest]["ns"] if (label, largest) in cells else float("inf"))
    lines = [
        line([f"ns a coordinate and step, {head}"] + [f"{value:,}" for value in columns] + [f"MiB at {largest:,}"]),
        "|---" + "|---:" * (len(columns) + 1) + "|",
    ]
    for label in labels:
        found = [cells.get((label, value)) for value in columns]
        last = found[-1]
        lines.append(
            line(
                [bold_if_ours({"label": label})]
                + ["–" if row is None else number(row["ns"]) for row in found]
                + ["–" if last is None else f"{last['peak_bytes'] / 2**20:,.0f}"]
            )
        )
    return lines


def notes(report: dict) -> list[str]:
    versions = {name: version for row in report["results"] for name, version in row.get("versions", {}).items()}
    shown = ", ".join(
        f"{name} {version}" for name, version in sorted(versions.items(), key=lambda pair: pair[0].lower())
    )
    busy = [row for row in report["results"] if "wall_ns" in row and row["wall_ns"] > 1.1 * row["ns"]]
    lines = [
        f"{report['processor']}, one core; Python {report['python']}, {shown}; {report['date']}. Times are medians of "
        "rounds, memory is the peak beyond the imported libraries."
    ]
    if busy:
        lines.append(
            f"**Preliminary**: the core was shared in {len(busy)} of {len(report['results'])} measurements, so these "
            "times are too long by what that costs in caches and memory bandwidth."
        )
    reasons: dict[str, dict[str, None]] = {}
    for row in report["results"]:
        if "skipped" in row:
            reasons.setdefault(row["skipped"], {})[f"{row['peer']} {row['variant']}".strip()] = None
    lines += [f"Not measured ({why}): {', '.join(names)}." for why, names in reasons.items()]
    return lines


def text(report: dict) -> str:
    tables = {
        "normals": lambda rows: flat_table(rows, "ns a number"),
        "scalar": lambda rows: flat_table(rows, "ns a step"),
        "figure5": lambda rows: grid_table(rows, "horizon", "horizon"),
        "wide": lambda rows: grid_table(rows, "coordinates", "coordinates"),
    }
    parts = ["![Times of all peers](images/benchmarks.png)", ""]
    for setting, heading in HEADINGS.items():
        rows = measured(report, setting)
        if rows:
            parts += [f"## {heading}", "", *tables[setting](rows), ""]
    for note in notes(report):
        parts += [textwrap.fill(note, 120, break_on_hyphens=False, break_long_words=False), ""]
    return "\n".join(parts)


def insert(path: Path, body: str) -> None:
    """Replaces the text between the markers; creates the page if it does not exist."""
    page = path.read_text() if path.exists() else FRAME
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no lines {BEGIN!r} and {END!r}: add them where the tables should be")
    path.write_text(f"{before}{BEGIN}\n{body}{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables and a picture of a run of the peers benchmark.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of benchmarks.md and images/")
    args = parser.parse_args()
    report = json.loads(args.results.read_text())
    insert(args.docs / "benchmarks.md", text(report))
    draw({setting: measured(report, setting) for setting in HEADINGS}, HEADINGS, args.docs / "images")


if __name__ == "__main__":
    main()
