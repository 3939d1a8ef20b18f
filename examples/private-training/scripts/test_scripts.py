"""Run: pytest examples/private-training/scripts (needs evertally and PyTorch installed)"""

import difflib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
HERE = Path(__file__).parent


def lines(name):
    """The lines of a script without its docstring."""
    text = (HERE / f"{name}.py").read_text()
    return text[text.index('"""\n', 3) + 4 :].strip().splitlines()


@pytest.mark.parametrize("name, most", [("images", 6), ("names", 7)])
def test_few_lines_change(name, most):
    changes = list(difflib.ndiff(lines(name), lines(f"{name}_private")))
    assert sum(change.startswith("+ ") for change in changes) <= most


@pytest.mark.parametrize("name", ["images", "names"])
def test_private_scripts_run(name, capsys):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}_private.py")
    script = importlib.util.module_from_spec(spec)
    sys.modules[name] = script
    spec.loader.exec_module(script)
    script.EPOCHS = 2
    script.main()
    found = re.findall(r"epoch (\d): loss (\d+\.\d+)", capsys.readouterr().out)
    assert [epoch for epoch, _ in found] == ["1", "2"] and float(found[1][1]) < float(found[0][1])
