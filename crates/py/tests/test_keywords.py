"""Signatures, types and help of the functions match the tables of keywords."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import evertally
from evertally import _functions

PACKAGE = Path(__file__).parents[1]


def keywords() -> Any:
    """All rows of the generator."""
    spec = importlib.util.spec_from_file_location("generate", PACKAGE / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate.keywords()


def test_the_functions_are_as_generated() -> None:
    run = subprocess.run([sys.executable, "generate.py", "--check"], cwd=PACKAGE, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_keyword_is_in_the_signatures_and_the_help() -> None:
    rows = keywords()
    assert len(rows) > 40
    for name in _functions.__all__:
        function = getattr(_functions, name)
        signature = inspect.signature(function).parameters
        for row in rows:
            assert (name in row["of"]) == (row["name"] in signature)
            assert (name in row["of"]) == (f"``{row['name']}``:" in function.__doc__)


def test_every_keyword_is_taken() -> None:
    """A keyword that the implementation does not read is refused, so these calls show that it reads all of them."""
    for plan in (
        evertally.plan(10, rho=0.5),
        evertally.plan_lazy(10, rho=0.5),
        evertally.plan_sketch(10, rows=3, width=10, rho=0.5),
        evertally.training.plan_vector(10, rho=0.5),
        evertally.plan_release(start="2024-01-01", steps=10, every="1d", rho=0.5),
    ):
        assert plan.horizon == 10
