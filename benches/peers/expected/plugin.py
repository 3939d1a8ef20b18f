"""A plugin of pytest: replaces the functions of one program before its tests are collected, and keeps the outcome of
each test as a line of JSON."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from . import LOG, fresh


def pytest_configure() -> None:
    module = importlib.import_module(f"expected.{os.environ['EVERTALLY_MODULE']}")
    if hasattr(module, "prepare"):
        module.prepare()
    if os.environ["EVERTALLY_REPLACE"] == "yes":
        module.replace()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    fresh()
    return (yield)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    line = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "answers": LOG.answers,
        "declined": LOG.declined,
        "smallest": LOG.smallest,
        "largest": LOG.largest,
        "names": sorted(LOG.names),
        "failure": str(report.longrepr)[-300:] if report.failed else "",
    }
    with open(os.environ["EVERTALLY_OUTCOMES"], "a") as file:
        file.write(json.dumps(line) + "\n")
