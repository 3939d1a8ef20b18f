"""The picture of `report.py`: one panel for each setting."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

OURS, THEIRS = "#D55E00", "#7A8CA3"
THEIR_LINES = ["#0072B2", "#009E73", "#56B4E9", "#CC79A7", "#7A8CA3", "#B8860B", "#000000"]
MARKERS = "os^Dv<>P"


def is_ours(label: str) -> bool:
    return label.startswith("evertally")


def bars(panel, rows: list[dict], unit: str) -> None:
    """Horizontal bars, the fastest on top, each under its label."""
    rows = sorted(rows, key=lambda row: -row["ns"])
    places = range(len(rows))
    colors = [OURS if is_ours(row["label"]) else THEIRS for row in rows]
    drawn = panel.barh(places, [row["ns"] for row in rows], color=colors, height=0.35)
    panel.bar_label(drawn, [f"{row['ns']:.3g}" for row in rows], padding=3, fontsize=8)
    for place, row in zip(places, rows):
        panel.annotate(row["label"], (0, place + 0.27), xytext=(2, 0), textcoords="offset points", fontsize=8)
    panel.set_xlim(0, 1.12 * max(row["ns"] for row in rows))
    panel.set_ylim(-0.5, len(rows) - 0.05)
    panel.set_yticks([])
    panel.set_xlabel(unit)


def lines(panel, rows: list[dict]) -> None:
    """Time against the horizon, both logarithmic."""
    labels = sorted(dict.fromkeys(row["label"] for row in rows), key=lambda label: -last_of(rows, label)["ns"])
    for index, label in enumerate(labels):
        mine = sorted((row for row in rows if row["label"] == label), key=lambda row: row["horizon"])
        panel.plot(
            [row["horizon"] for row in mine],
            [row["ns"] for row in mine],
            marker=MARKERS[index % len(MARKERS)],
            markersize=4.5,
            color=OURS if is_ours(label) else THEIR_LINES[index % len(THEIR_LINES)],
            linewidth=2.2 if is_ours(label) else 1.2,
            label=label,
        )
    horizons = sorted({row["horizon"] for row in rows})
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(horizons, [f"{horizon:,}" for horizon in horizons])
    panel.set_ylim(top=20 * max(row["ns"] for row in rows))
    panel.set_xlabel("horizon")
    panel.set_ylabel("ns a coordinate and step")
    panel.legend(fontsize=7.5, loc="upper left", ncols=2, frameon=False)


def last_of(rows: list[dict], label: str) -> dict:
    return max((row for row in rows if row["label"] == label), key=lambda row: row["horizon"])


def draw(results: dict[str, list[dict]], headings: dict[str, str], folder: Path) -> None:
    """Writes benchmarks.svg and benchmarks.png."""
    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    largest = max((row["coordinates"] for row in results["wide"]), default=0)
    wide = [row for row in results["wide"] if row["coordinates"] == largest]
    plots = {
        "normals": lambda panel: bars(panel, results["normals"], "ns a number"),
        "wide": lambda panel: bars(panel, wide, "ns a coordinate and step"),
        "figure5": lambda panel: lines(panel, results["figure5"]),
        "scalar": lambda panel: bars(panel, results["scalar"], "ns a step"),
    }
    titles = headings | {"wide": f"{largest:,} coordinates, horizon 2048, added to a gradient"}
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for panel, (setting, plot) in zip(panels.flat, plots.items()):
        if results[setting]:
            plot(panel)
        panel.set_title(titles[setting], fontsize=10, loc="left")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "benchmarks.svg", metadata={"Date": None})
    figure.savefig(folder / "benchmarks.png", dpi=150, metadata={"Software": None})
