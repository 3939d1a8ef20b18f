"""Every example in a docstring runs, including those of compiled classes, and everything public has a docstring."""

import doctest
import inspect
from collections.abc import Iterator

import pytest

import evertally
from evertally import _declare, _errors, _evertally, _functions, _keywords, _parts, _tables, _types, budget, training

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def documented() -> Iterator[tuple[str, str]]:
    """Names and docstrings of all modules, classes, methods and properties."""
    for module in (evertally, budget, training, _declare, _errors, _functions, _keywords, _parts, _tables, _types):
        yield module.__name__, module.__doc__ or ""
    inside = [f"budget.{name}" for name in budget.__all__] + [f"training.{name}" for name in training.__all__]
    inside += [f"training.federated.{name}" for name in training.federated.__all__]
    for name in (*evertally.__all__, *inside):
        thing = evertally
        for part in name.split("."):
            thing = getattr(thing, part)
        if inspect.ismodule(thing) or isinstance(thing, str):
            continue
        yield name, inspect.getdoc(thing) or ""
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            for part, member in vars(thing).items():
                # The class's docstring describes the fields of a dataclass.
                if not part.startswith("_") and part not in getattr(thing, "__dataclass_fields__", {}):
                    member = member.__func__ if isinstance(member, staticmethod) else member
                    yield f"{name}.{part}", inspect.getdoc(member) or ""


NAMED = dict(sorted(documented()))  # the same order in every process


@pytest.mark.parametrize("name", NAMED)
def test_examples_run(name: str) -> None:
    text = NAMED[name]
    assert text, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    report: list[str] = []
    # Not `verbose=None`, which reads pytest's own -v.
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_there_are_examples_for_everything_that_is_called() -> None:
    called: list[str] = []
    for module, prefix in ((evertally, ""), (training, "training.")):
        for name, thing in vars(module).items():
            is_class = inspect.isclass(thing) and name[0].isupper() and not issubclass(thing, Exception)
            if is_class or name in _functions.__all__:
                called.append(prefix + name)
    lacking = [name for name in called if ">>>" not in NAMED[name]]
    assert lacking == ["ArrowTable"]


def test_the_compiled_module_exports_nothing_that_is_not_reexported() -> None:
    public = {name for name in vars(_evertally) if not name.startswith("_")}
    assert public <= {*evertally.__all__, *budget.__all__, *training.__all__}
