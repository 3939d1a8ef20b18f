"""Every example of the documents runs, and has the output that the page shows."""

import os
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY, script

documents = script(REPOSITORY / "docs/run.py")

# Blocks that cannot run here; `python3 docs/run.py --list` shows them with their reasons. Only ever lowered.
NOT_RUN = 43
# Pages whose Rust blocks are files of a check (checks/toy_mechanism.py).
RUST_FILES = {"docs/adding-a-mechanism.md"}


def group(page: str) -> str:
    """Pages run in parallel, apart from those that may start a service, whose addresses are fixed."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return "service" if "evertally serve" in text or "serve.toml" in text or "8800" in text else page


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.xdist_group(group(page))) for page in documents.pages()]
)
def test_page(page: str, program: str) -> None:
    if lacking := documents.missing(page):
        pytest.skip(f"{', '.join(lacking)} is not installed")
    write = os.environ.get("EVERTALLY_WRITE_DOCUMENTS") == "1"
    problems = documents.run(page, program, write=write)
    assert not problems, "\n".join([*problems, "`docs/update` rewrites outputs"])


def test_blocks_that_do_not_run_are_counted() -> None:
    found = list(documents.not_run())
    assert len(found) == NOT_RUN, found


def test_rust_blocks_are_doc_tests() -> None:
    doc_tests = (REPOSITORY / "crates/testkit/src/lib.rs").read_text(encoding="utf-8")
    for page in documents.pages():
        blocks = documents.blocks((REPOSITORY / page).read_text(encoding="utf-8"))
        if any(block.kind == "rust" for block in blocks) and page not in RUST_FILES:
            assert f"../../../{page}" in doc_tests, f"{page} has Rust blocks: include it in crates/testkit/src/lib.rs"


@pytest.mark.parametrize(
    ("expected", "actual", "is_same"),
    [
        ("a\nb\n", "a\nb", True),
        ("a\n...\nc", "a\nb\nb\nc", True),
        ("a\n...\nc", "a\nb", False),
        ("x [..] z", "x y z", True),
        ("x [..] z", "x y", False),
        ("first 2026-01-01T00:00:00Z", "first 2027-02-03T04:05:06.7Z", True),
        ("value 3", "value 4", False),
        ("", "something", False),
    ],
)
def test_outputs_are_compared(expected: str, actual: str, is_same: bool) -> None:
    assert documents.matches(expected, actual) == is_same


def test_an_output_that_differs_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner notices wrong outputs, wrong statuses, wrong values and unparsable files, and rewrites outputs."""
    page = tmp_path / "page.md"
    fence = "`" * 3
    blocks = {
        "console": "$ echo right\nwrong\n",
        "sh": "false\n",
        "python": ">>> 1 + 1\n3\n",
        "toml": "a = \n",
        "json": "{\n",
    }
    page.write_text("".join(f"{fence}{kind}\n{text}{fence}\n\n" for kind, text in blocks.items()), encoding="utf-8")
    monkeypatch.setattr(documents, "ROOT", tmp_path)
    (tmp_path / "examples").mkdir()
    problems = documents.run("page.md", "/bin/true")
    assert len(problems) == len(blocks), problems
    documents.run("page.md", "/bin/true", write=True)
    assert re.search("echo right\nright\n", page.read_text(encoding="utf-8"))
    assert re.search(r">>> 1 \+ 1\n2\n", page.read_text(encoding="utf-8"))
