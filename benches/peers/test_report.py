"""Tests that the report shows the measurements in the right places. Run: pytest benches/peers"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import report  # noqa: E402


def row(label: str, horizon: int, ns: float, **more) -> dict:
    return {
        "setting": "figure5",
        "label": label,
        "horizon": horizon,
        "coordinates": 10,
        "ns": ns,
        "peak_bytes": 2**20,
    } | more


def test_tables_go_between_the_markers_and_nothing_else_changes(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.insert(page, "new\n")
    assert page.read_text() == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"


def test_a_missing_page_is_made_and_a_page_without_markers_refused(tmp_path):
    page = tmp_path / "benchmarks.md"
    report.insert(page, "new\n")
    report.insert(page, "newer\n")
    assert page.read_text() == f"# Benchmarks\n\n{report.BEGIN}\nnewer\n{report.END}\n"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit, match="has no lines"):
        report.insert(page, "new\n")


def test_grid_has_the_fastest_first_and_dashes_for_gaps():
    rows = [row("slow", 8, 5.0), row("slow", 16, 12.34), row("evertally, fast", 16, 0.987), row("small", 8, 1.0)]
    assert report.grid_table(rows, "horizon", "horizon")[2:] == [
        "| **evertally, fast** | – | 0.99 | 1 |",
        "| slow | 5.00 | 12.3 | 1 |",
        "| small | 1.00 | – | – |",
    ]


def test_shared_cores_and_missing_peers_are_told():
    results = [row("a", 8, 1.0, wall_ns=2.0), {"peer": "b", "variant": "x", "skipped": "not installed"}]
    results.append({"peer": "b", "variant": "x", "skipped": "not installed"})
    message = report.notes({"processor": "P", "python": "3", "date": "today", "results": results})
    assert "shared in 1 of 3" in message[1]
    assert message[2:] == ["Not measured (not installed): b x."]


@pytest.mark.parametrize("value, shown", [(0.7312, "0.73"), (9.996, "10.0"), (99.96, "100"), (273.4, "273")])
def test_three_digits(value, shown):
    assert report.number(value) == shown
