"""Signatures, types and help of the functions and objects match the tables of keywords, and the reference page."""

import dataclasses
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import evertally
from conftest import REPOSITORY, script
from evertally import _functions

PACKAGE = Path(__file__).parents[1]


def keywords() -> Any:
    """All rows of the generator."""
    return script(PACKAGE / "generate.py").keywords()


def test_the_functions_are_as_generated() -> None:
    run = subprocess.run([sys.executable, "generate.py", "--check"], cwd=PACKAGE, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_every_keyword_is_in_the_signatures_and_the_help() -> None:
    rows = keywords()
    assert len(rows) > 40
    for name in _functions.__all__:
        function = getattr(_functions, name)
        signature = inspect.signature(function).parameters
        # Two rows may have one name: keywords of different functions.
        taken = [row["name"] for row in rows if name in row["of"]]
        assert len(taken) == len(set(taken))
        positional = {name for name, parameter in signature.items() if parameter.kind is not parameter.KEYWORD_ONLY}
        for row in rows:
            if row["name"] in positional:  # of another function
                continue
            assert (row["name"] in taken) == (row["name"] in signature)
            assert (row["name"] in taken) == (f"``{row['name']}``:" in function.__doc__)


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


def test_only_functions_that_take_other_values_have_their_own_help() -> None:
    """The table of declarations has the help of everything that is declared."""
    declared = {row["name"] for row in keywords() if "declared" in row}
    table = tomllib.loads((PACKAGE / "keywords.toml").read_text(encoding="utf-8"))["keyword"]
    own = {(row["name"], *row["help"]) for row in table if row["name"] in declared and "help" in row}
    assert own == {
        ("correlate_groups", "plan"),
        ("workload", "plan_lazy"),
        ("mechanism", "plan_vector"),
        ("neighbours", "plan_vector"),
        ("objective", "plan_vector"),
        ("per", "plan plan_lazy plan_sketch"),
        ("protect_window", "plan plan_lazy plan_sketch"),
    }


def test_the_fields_of_a_stream_are_those_of_the_keywords() -> None:
    rows = {row["field"]: row for row in keywords() if "." not in row.get("field", ".")}
    fields = {field.name: field for field in dataclasses.fields(evertally.Stream)}
    assert rows.keys() <= fields.keys()
    for name, row in rows.items():
        kind = row["type"].replace('"', "'")
        assert (fields[name].type, repr(fields[name].default)) == (kind, repr(eval(row["default"])))


def test_the_reference_shows_python_as_it_is() -> None:
    """Every example evaluates, to one known keyword or field."""
    page = (REPOSITORY / "docs/reference/options.md").read_text(encoding="utf-8")
    keyword = [eval(f"dict({text})") for text in re.findall(r"^\| Python \| `(.*)` \|$", page, re.MULTILINE)]
    known = {row["name"] for row in keywords() if "declared" in row}
    assert [len(one) for one in keyword] == [1] * len(known) and {name for one in keyword for name in one} == known
    needed = {"Steps": 'start="2024-01-01", every="1d"', "Person": 'column="who"', "Groups": 'columns="gate"'}
    needed["Values"] = 'column="price"'
    # Each of its fields is enough to declare it, but for the text.
    needed["AssertedPerson"] = "assert_max_events=3"
    shown = re.findall(r"^\| `et.Stream` \| `(.*)` \|$", page, re.MULTILINE)
    assert len(shown) == len(known)
    for text in shown:
        for part, arguments in needed.items():
            others = ", ".join(one for one in arguments.split(", ") if f"{one.split('=')[0]}=" not in text)
            text = text.replace(f"et.{part}(…, ", f"et.{part}({others}, " if others else f"et.{part}(")
        given = eval(f"dict({text.replace(', …', '')})", {"et": evertally})
        steps = evertally.Steps(start="2020-01-01", every="1h")
        whole: dict[str, Any] = {"steps": steps, "budget": evertally.Budget.pure(1)}
        stream = evertally.Stream(**whole | given)
        assert stream != evertally.Stream(**whole) or text.startswith("budget=et.Budget.pure(1)"), text
