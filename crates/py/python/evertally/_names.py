"""Errors about misspelt keywords, which suggest the right one."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)


def checked(module: str) -> Callable[[_F], _F]:
    """The public functions of a module, which suggest a keyword instead of an unknown one."""
    return lambda function: _checked(function, f"{module}.{function.__name__}", "keyword")


def part(declared: _C) -> _C:
    """The dataclass, which suggests a field instead of an unknown one."""
    declared.__init__ = _checked(declared.__init__, f"evertally.{declared.__name__}", "field")  # type: ignore[misc]
    return declared


def unknown(called: str, kind: str, name: str, known: Iterable[str]) -> TypeError:
    """The error about an unknown keyword or field."""
    near = "".join(f"; did you mean {meant}?" for meant in _meant(name, list(known))[:1])
    return TypeError(f"{called} has no {kind} {name}{near}")


def _checked(function: _F, called: str, kind: str) -> _F:
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def checking(*given: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise unknown(called, kind, name, known)
        return function(*given, **named)

    return checking  # type: ignore[return-value]


def _meant(name: str, known: list[str]) -> list[str]:
    """Known names that are meant: the same parameter under its name in another front end, or the most similar name."""
    from ._parts import PARAMETERS  # which uses this module

    for keyword, parameter in PARAMETERS.items():
        if name in (keyword, parameter.name.replace("-", "_")):
            part, _, field = parameter.field.rpartition(".")
            if here := [meant for meant in (keyword, field) if meant in known]:
                return here
            if part in known:  # a stream has the part
                return [parameter.field]
    return difflib.get_close_matches(name, known, 1)
