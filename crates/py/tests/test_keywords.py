"""Signatures, types and help of the functions are what the table of keywords says."""

import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import evertally
from evertally import _functions

PACKAGE = Path(__file__).parents[1]
TABLE = tomllib.loads((PACKAGE / "keywords.toml").read_text(encoding="utf-8"))


def test_the_functions_are_as_generated() -> None:
    run = subprocess.run([sys.executable, "generate.py", "--check"], cwd=PACKAGE, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_keyword_is_in_the_signatures_and_the_help() -> None:
    assert {function["name"] for function in TABLE["function"]} == set(_functions.__all__)
    for name in _functions.__all__:
        function = getattr(evertally, name)
        keywords = inspect.signature(function).parameters
        for keyword in TABLE["keyword"]:
            assert (name in keyword["of"]) == (keyword["name"] in keywords)
            assert (name in keyword["of"]) == (f"``{keyword['name']}``:" in function.__doc__)


def test_keywords_of_releases_are_those_of_a_declaration() -> None:
    """The pipeline's own table says which parameters a declared stream has, and what they are called here."""
    schema = json.loads((PACKAGE.parents[1] / "docs" / "declaration.schema.json").read_text(encoding="utf-8"))
    for name, user in (("release", "python release"), ("plan_release", "python plan_release")):
        declared = {p["x-keyword"]: p for p in schema["properties"].values() if user in p["x-uses"]}
        keywords = inspect.signature(getattr(evertally, name)).parameters
        # A table, its key and a budget that is made already have no place in a text.
        assert set(keywords) - {"table", "key", "budget"} == set(declared)
        for keyword, parameter in declared.items():
            default = keywords[keyword].default
            if default not in (None, inspect.Parameter.empty, False, ()):
                assert parameter["default"] == default, keyword


def test_every_keyword_is_taken() -> None:
    """What a function hands on and nobody takes is refused: the defaults of all keywords are taken, then."""
    for plan in (
        evertally.plan(10, rho=0.5),
        evertally.plan_lazy(10, rho=0.5),
        evertally.plan_sketch(10, rows=3, width=10, rho=0.5),
        evertally.plan_vector(10, rho=0.5),
        evertally.plan_release(start="2024-01-01", steps=10, every="1d", rho=0.5),
    ):
        assert plan.horizon == 10
