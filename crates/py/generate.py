"""Writes python/evertally/_functions.py from keywords.toml: `python crates/py/generate.py`. With --check it writes nothing and
fails where the file is not what the table says."""

import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "keywords.toml"
WRITTEN = HERE / "python" / "evertally" / "_functions.py"
WIDTH = 120

HEAD = '''\
"""The functions that plan and release: their keywords, types and help.

Written by `generate.py` from `keywords.toml`; change that, and run it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal

from . import _evertally, _tables
from ._evertally import Budget, Plan, SecretKey, VectorPlan
from ._types import Number, Table, Time
'''


def written() -> str:
    """The module, as the table says it."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    functions = table["function"]
    names = [function["name"] for function in functions]
    for keyword in table["keyword"]:
        unknown = set(keyword["of"]) - set(names)
        if unknown:
            raise SystemExit(f"keywords.toml: `{keyword['name']}` is of {', '.join(unknown)}, which is no function there")
    texts = [function_text(function, table["keyword"]) for function in functions]
    exported = ", ".join(f'"{name}"' for name in sorted(names))
    return "\n\n".join([HEAD + f"\n__all__ = [{exported}]\n", *texts])


def function_text(function: dict[str, Any], table: list[dict[str, Any]]) -> str:
    """One function: signature, help and the call that does the work."""
    name = function["name"]
    keywords = [keyword for keyword in table if name in keyword["of"]]
    arguments = [function["positional"]] if "positional" in function else []
    arguments += ["*", *(argument(keyword) for keyword in keywords)]
    signature = "".join(f"    {argument},\n" for argument in arguments)
    lines = [function["doc"].strip(), *sections(name, keywords), function["examples"].strip()]
    doc = textwrap.indent("\n\n".join(map(wrapped, lines)), "    ").lstrip()
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
    """The help of the keywords, under the headings of the table."""
    found: dict[str, list[str]] = {}
    for keyword in keywords:
        text = keyword["help"]
        if isinstance(text, dict):
            text = text.get(function, text["else"])
        entry = textwrap.fill(
            f"``{keyword['name']}``: {text}",
            WIDTH - 8,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        found.setdefault(keyword["section"], []).append(textwrap.indent(entry, "    "))
    return ["\n".join([f"{title}:", *entries]) for title, entries in found.items()]


def wrapped(text: str) -> str:
    """Paragraphs of prose within the width; examples and lists stay as they are."""
    paragraphs = text.split("\n\n")
    kept = [p if p.startswith(">>>") or "\n    " in p else textwrap.fill(p, WIDTH - 4, break_on_hyphens=False) for p in paragraphs]
    return "\n\n".join(kept)


def main() -> None:
    text = written()
    if sys.argv[1:] != ["--check"]:
        WRITTEN.write_text(text, encoding="utf-8")
    elif WRITTEN.read_text(encoding="utf-8") != text:
        raise SystemExit("_functions.py is not what keywords.toml says: run python crates/py/generate.py")


if __name__ == "__main__":
    main()
