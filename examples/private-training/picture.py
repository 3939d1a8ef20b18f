"""The picture of `train.py`: accuracy against ε."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's colours, which colour-blind readers can distinguish; the markers differ for prints in grey.
STYLES = {
    "input": ("#000000", "s"),
    "binary": ("#E69F00", "^"),
    "subtract": ("#009E73", "D"),
    "smooth": ("#0072B2", "o"),
    "blt": ("#D55E00", "v"),
}


def draw(rows: list[dict], settings, mechanisms: dict[str, str], epsilons, folder: Path) -> None:
    """One panel for each setting, the median with the quartiles; writes accuracy.svg and accuracy.png."""
    plt.rcParams.update(
        {"svg.hashsalt": "evertally", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panels = plt.subplots(1, len(settings), figsize=(12, 4.2), sharey=True, layout="constrained")
    for panel, setting in zip(panels, settings):
        mine = [row for row in rows if row["setting"] == setting.name]
        draw_panel(panel, mine, mechanisms, epsilons)
        panel.set_title(f"{setting.name} ({setting.steps} steps)", fontsize=11)
        panel.set_xlabel("ε (δ = 10⁻⁵)")
    panels[0].set_ylabel("test accuracy")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(mechanisms), frameon=False)
    figure.savefig(folder / "accuracy.svg", metadata={"Date": None})
    figure.savefig(folder / "accuracy.png", dpi=160, metadata={"Software": None})


def draw_panel(panel, rows: list[dict], mechanisms: dict[str, str], epsilons) -> None:
    without = next(row["median"] for row in rows if row["mechanism"] == "none")
    for level, text in ((without, "without noise"), (0.1, "chance")):
        panel.axhline(level, color="0.5", linestyle=":", linewidth=1)
        panel.annotate(text, (epsilons[0], level), xytext=(0, 3), textcoords="offset points", color="0.35", fontsize=9)
    for mechanism, label in mechanisms.items():
        color, marker = STYLES[mechanism]
        mine = [row for row in rows if row["mechanism"] == mechanism]
        panel.fill_between(
            epsilons,
            [row["lower_quartile"] for row in mine],
            [row["upper_quartile"] for row in mine],
            color=color,
            alpha=0.13,
            linewidth=0,
        )
        panel.plot(epsilons, [row["median"] for row in mine], color=color, marker=marker, markersize=5, label=label)
    panel.set_xscale("log", base=2)
    panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    panel.set_ylim(0, 1)
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)
