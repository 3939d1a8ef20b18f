"""The stub of the compiled module has the names and signatures of the compiled objects, and no others.

`mypy.stubtest` compares more, where mypy is installed; this needs nothing but Python.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evertally import _evertally

STUB = ast.parse((Path(_evertally.__file__).parent / "_evertally.pyi").read_text(encoding="utf-8"))
Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Special methods that every object has, or that the compiler adds; a stub need not repeat them.
PLAIN = {*dir(object), "__module__", "__doc__", "__ge__", "__gt__", "__le__", "__lt__", "__match_args__"}


def functions(of: ast.Module | ast.ClassDef) -> dict[str, Function]:
    """The functions of a module or class by name; of overloads, the last one."""
    return {node.name: node for node in of.body if isinstance(node, Function)}


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def is_property(node: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def parameters(node: Function) -> list[tuple[str, str, bool]]:
    """The parameters in the stub: name, kind, and whether there is a default."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [False] * (len(plain) - len(given.defaults)) + [True] * len(given.defaults)
    found = [
        (each.arg, "positional" if place < len(given.posonlyargs) else "plain", default)
        for place, (each, default) in enumerate(zip(plain, defaults, strict=True))
    ]
    found += [(given.vararg.arg, "several", False)] if given.vararg else []
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    found += [(each.arg, "keyword", default is not None) for each, default in named]
    return [each for each in found if each[0] not in ("self", "cls")]


KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "plain",
    inspect.Parameter.VAR_POSITIONAL: "several",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


def compiled(of: Any) -> list[tuple[str, str, bool]]:
    """The parameters of a compiled object."""
    found = [each for each in inspect.signature(of).parameters.values() if each.name not in ("self", "cls")]
    return [(each.name, KINDS[each.kind], each.default is not each.empty) for each in found]


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not (name.startswith("__") and name in PLAIN)}


def signatures() -> Iterator[tuple[str, Function, Any]]:
    """All functions and methods of the stub, with the compiled ones."""
    for name, node in functions(STUB).items():
        yield name, node, getattr(_evertally, name)
    for of, kind in classes().items():
        for name, node in functions(kind).items():
            if name == "__new__":
                yield of, node, getattr(_evertally, of)
            elif not is_property(node) and not name.startswith("__"):
                yield f"{of}.{name}", node, getattr(getattr(_evertally, of), name)


def test_the_stub_has_all_names_of_the_module() -> None:
    stubbed = functions(STUB).keys() | classes().keys()
    exist = {name for name, of in vars(_evertally).items() if callable(of)}
    assert stubbed == exist
    assert len(stubbed) > 40


@pytest.mark.parametrize("name", sorted(classes()))
def test_the_stub_has_all_members_of_a_class(name: str) -> None:
    kind, node = getattr(_evertally, name), classes()[name]
    stubbed = functions(node)
    assert {one for one in stubbed if not (one.startswith("__") and one in PLAIN)} == members(kind)
    for one, method in stubbed.items():
        if not one.startswith("__"):
            assert is_property(method) == inspect.isdatadescriptor(vars(kind)[one]), f"{name}.{one}"
    is_made = "__new__" in vars(kind) and kind.__text_signature__ is not None
    assert is_made == ("__new__" in stubbed or "__init__" in stubbed)


SIGNATURES = {name: (node, of) for name, node, of in signatures()}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_agree(name: str) -> None:
    node, of = SIGNATURES[name]
    assert parameters(node) == compiled(of)
