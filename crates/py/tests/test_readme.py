"""The Python code of the README and of the guide runs unchanged."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("crates/py/README.md", 3),
        ("README.md", 2),
        ("docs/guide/python.md", 2),
        ("docs/guide/training.md", 1),
        ("docs/guide/embeddings.md", 1),
        ("docs/guide/moments.md", 1),
        ("docs/guide/auditing-training.md", 2),
    ],
)
def test_the_readme_runs(page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= least
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
