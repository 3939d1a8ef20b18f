"""Writes python/evertally/_functions.py: `python crates/py/generate.py`. With --check it writes nothing, and fails
where the file is not what it would write.

Keywords of a release and of its plan come from docs/declaration.schema.json, which is made of the one table of all
that can be declared (crates/declare/src/parameter/rows.rs): name, type, default and help. keywords.toml has what
only Python has: the functions, which other functions take a declared keyword, and the keywords of those that
declare no release.
"""

import json
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "declaration.schema.json"
TABLE = HERE / "keywords.toml"
WRITTEN = HERE / "python" / "evertally" / "_functions.py"
WIDTH = 120

HEAD = '''\
"""The functions that plan and release: their keywords, types and help.

Written by `generate.py` from `keywords.toml` and the table of declarations; change those, and run it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal

from . import _evertally, _tables
from ._evertally import Budget, Plan, SecretKey, Training, VectorPlan
from ._types import Number, Table, Time
'''


def keywords() -> list[dict[str, Any]]:
    """All keywords in the order of signatures: name, section, type, default, help, and the functions that take each."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    rows = declared()
    for row in table["keyword"]:
        known = rows.get(row["name"], {"of": [], "help": ""})
        own = row.get("help", {})
        text = {"else": known["help"]} | own if isinstance(own, dict) else own
        rows[row["name"]] = known | row | {"of": known["of"] + row.get("of", []), "help": text}
    sections = table["sections"]
    functions = {function["name"] for function in table["function"]}
    for row in rows.values():
        if unknown := set(row["of"]) - functions:
            raise SystemExit(f"keywords.toml: `{row['name']}` is of {', '.join(unknown)}, which is no function there")
        if row["section"] not in sections:
            raise SystemExit(f"keywords.toml: the section {row['section']!r} of `{row['name']}` is not in its list")
    return sorted(rows.values(), key=lambda row: (sections.index(row["section"]), row.get("order", 1000)))


def declared() -> dict[str, dict[str, Any]]:
    """The keywords of a release, by the schema of declarations."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    rows = {}
    for name, of in schema["properties"].items():
        if "x-keyword" not in of:
            continue
        needed = name in schema["required"]
        kind, default = type_of(of), default_of(of)
        rows[of["x-keyword"]] = {
            "name": of["x-keyword"],
            "order": of.get("x-order", 0),
            "section": of["x-heading"],
            "type": kind if needed or default is not None else f"{kind} | None",
            **({} if needed else {"default": default or "None"}),
            "help": help_of(of),
            "of": [use.removeprefix("python ") for use in of["x-uses"] if use.startswith("python ")],
        }
    return rows


def type_of(of: dict[str, Any]) -> str:
    """A parameter's type in Python."""
    if words := of.get("enum") or [word["const"] for word in of.get("oneOf", [])]:
        return f"Literal[{', '.join(json.dumps(word) for word in words)}]"
    if {"type": "string"} in of.get("anyOf", []):
        return "str | Sequence[str]"
    if "anyOf" in of:
        return "Iterable[str] | Iterable[Sequence[object]]"
    if of.get("type") == "array":
        if of["items"]["type"] == ["string", "number"]:
            return "tuple[Number, Number]" if of.get("maxItems") == 2 else "Sequence[Number]"
        return "str | Sequence[str]"
    if of.get("type") == ["string", "number"]:
        return "Number"
    if of.get("type") == ["string", "integer"]:
        return "str | int"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[of["type"]]


def help_of(of: dict[str, Any]) -> str:
    """What a parameter is, what its words mean, and what is done without it."""
    text: str = of["description"]
    words = [f'"{word["const"]}": {word["description"]}.' for word in of.get("oneOf", [])]
    otherwise: str = of.get("x-default", "")
    if otherwise and "default" not in of:
        words.append(f"Without it, {otherwise}.")
    elif ", " in otherwise:
        words.append(f"By default {otherwise}.")
    return " ".join([text, *words])


def default_of(of: dict[str, Any]) -> str | None:
    """A parameter's default as Python writes it; `None` where it is no value."""
    if of.get("type") == "boolean":
        return "False"
    # The grid of counts is no grid: it can be given with bounds only.
    if "default" not in of or of.get("type") == ["string", "number"]:
        return None
    return json.dumps(of["default"])


def written() -> str:
    """The module, as the tables say it."""
    functions = tomllib.loads(TABLE.read_text(encoding="utf-8"))["function"]
    texts = [function_text(function, keywords()) for function in functions]
    exported = ", ".join(f'"{function["name"]}"' for function in sorted(functions, key=lambda f: str(f["name"])))
    return "\n\n".join([HEAD + f"\n__all__ = [{exported}]\n", *texts])


def function_text(function: dict[str, Any], table: list[dict[str, Any]]) -> str:
    """One function: signature, help and the call that does the work."""
    name = function["name"]
    taken = [keyword for keyword in table if name in keyword["of"]]
    arguments = [function["positional"]] if "positional" in function else []
    arguments += ["*", *map(argument, taken)]
    signature = "".join(f"    {argument},\n" for argument in arguments)
    parts = [wrapped(function["doc"]), *sections(name, taken), function["examples"].strip()]
    doc = textwrap.indent("\n\n".join(parts), "    ").lstrip()
    return (
        f"def {name}(\n{signature}) -> {function['returns']}:\n"
        f'    """{doc}\n    """\n'
        f"    return {function['calls']}\n"
    )


def argument(keyword: dict[str, Any]) -> str:
    """One keyword in a signature."""
    default = f" = {keyword['default']}" if "default" in keyword else ""
    return f"{keyword['name']}: {keyword['type']}{default}"


def sections(function: str, keywords: list[dict[str, Any]]) -> list[str]:
    """The help of the keywords under their headings."""
    found: dict[str, list[str]] = {}
    for keyword in keywords:
        text = keyword["help"]
        if isinstance(text, dict):
            text = next((words for names, words in text.items() if function in names.split()), text["else"])
        entry = filled(f"``{keyword['name']}``: {text}", WIDTH - 8, "    ")
        found.setdefault(keyword["section"], []).append(textwrap.indent(entry, "    "))
    return ["\n".join([f"{title}:", *entries]) for title, entries in found.items()]


def wrapped(text: str) -> str:
    """Paragraphs of prose within the width."""
    return "\n\n".join(filled(paragraph, WIDTH - 4) for paragraph in text.strip().split("\n\n"))


def filled(text: str, width: int, indent: str = "") -> str:
    """One paragraph."""
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def main() -> None:
    text = written()
    if sys.argv[1:] != ["--check"]:
        WRITTEN.write_text(text, encoding="utf-8")
    elif WRITTEN.read_text(encoding="utf-8") != text:
        raise SystemExit("_functions.py is not what the tables say: run python crates/py/generate.py")


if __name__ == "__main__":
    main()
