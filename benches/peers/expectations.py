"""Runs tests of other programs with our numbers in place of theirs, and prints how many hold: `python expectations.py`.
See README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

try:
    from expected import SUITES, Suite
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}: install this project first, `pip install ./crates/py`") from None

HERE = Path(__file__).parent
CLOSE = 1e-5  # our bounds are rounded up by less
CLASSES = ("holds", "rounded", "smaller", "differs")
NEEDED = ("hypothesis", "absl-py", "pytest", "scipy")  # by the tests


def install() -> None:
    """The programs and what their tests need. pfl-research asks for an older Python and an older dp-accounting."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    packages = [f"{suite.package}=={suite.version}" for suite in SUITES if suite.package != "pfl"]
    subprocess.run([*pip, *packages, *NEEDED], check=True)
    pfl = next(f"{suite.package}=={suite.version}" for suite in SUITES if suite.package == "pfl")
    subprocess.run(
        [*pip, "--no-deps", "--ignore-requires-python", pfl, "prv-accountant", "multiprocess", "dill"], check=True
    )


def tests_of(suite: Suite, folder: Path) -> Path:
    """The unpacked source distribution of a program."""
    root = folder / f"{suite.package.replace('-', '_')}-{suite.version}"
    if not root.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, f"{suite.package}=={suite.version}", "--dest", folder], check=True)
        with tarfile.open(root.with_name(f"{root.name}.tar.gz")) as archive:
            archive.extractall(folder, filter="data")
        if suite.helpers:  # which the source distribution lacks
            (root / suite.tests / "__init__.py").touch()
            (root / suite.tests / "helpers.py").write_text(suite.helpers)
    return root


def outcomes(suite: Suite, root: Path, replaced: bool, factor: float, only: Iterable[str] = ()) -> dict[str, Any]:
    """Each test and its outcome, with our numbers if `replaced`, multiplied by a factor."""
    files = [str(root / suite.tests / name) for name in suite.files if (root / suite.tests / name).exists()]
    if not files:  # pfl-research without a checkout
        return {}
    with tempfile.NamedTemporaryFile("r") as lines:
        environment = os.environ | {
            "EVERTALLY_OUTCOMES": lines.name,
            "EVERTALLY_MODULE": suite.module,
            "EVERTALLY_REPLACE": "yes" if replaced else "no",
            "EVERTALLY_FACTOR": str(factor),
            "PYTHONPATH": os.pathsep.join([str(HERE), str(root), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", "pytest", "--quiet", "--tb=line", "-p", "expected.plugin"]
        command += ["-p", "no:cacheprovider", "-o", "addopts=", "--noconftest", "--rootdir", str(root)]
        names = [str(root / name) for name in only]
        command += ["-k", suite.select] if suite.select and not names else []
        done = subprocess.run(
            [*command, *(names or files)], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"the tests of {suite.name} could not be run:\n{done.stdout}{done.stderr}")
        found = [json.loads(line) for line in lines]
    return {one["test"]: one for one in found}


def kind(one: dict[str, Any]) -> str:
    """How a test with our numbers ended."""
    if one["outcome"] == "passed":
        return "holds"
    if one["smallest"] > 1 - CLOSE and one["largest"] < 1 + CLOSE:
        return "rounded"
    return "smaller" if one["largest"] < 1 + CLOSE else "differs"


def row(suite: Suite, root: Path) -> tuple[list[str], list[str]]:
    """The cells of a suite, and its tests that fail although our numbers are not smaller."""
    ours = outcomes(suite, root, True, 1.0)
    touched = {name: one for name, one in ours.items() if one["answers"] and one["outcome"] != "skipped"}
    if not touched:
        return [suite.name, suite.version, str(len(ours)), *[""] * 7], []
    failed = [name for name, one in touched.items() if one["outcome"] == "failed"]
    without = outcomes(suite, root, False, 1.0, failed) if failed else {}
    unsound = {name for name in failed if without.get(name, {}).get("outcome") == "failed"}
    counted = {name: one for name, one in touched.items() if name not in unsound}
    wrong = outcomes(suite, root, True, 1.05, touched)
    noticed = sum(kind(one) == "holds" and wrong[name]["outcome"] == "failed" for name, one in counted.items())
    counts = [sum(kind(one) == name for one in counted.values()) for name in CLASSES]
    numbers = [len(ours), len(counted), sum(one["answers"] for one in counted.values()), *counts, noticed]
    different = [f"{name}: {one['failure']}" for name, one in counted.items() if kind(one) == "differs"]
    return [suite.name, suite.version, *map(str, numbers)], different


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [suite.name for suite in SUITES]
    parser.add_argument("--suites", nargs="+", default=names, choices=names)
    parser.add_argument("--install", action="store_true", help="first install the programs into this environment")
    parser.add_argument("--folder", type=Path, help="folder of the source distributions (default: a temporary one)")
    parser.add_argument("--pfl", type=Path, help="a checkout of pfl-research: its packages contain no tests")
    args = parser.parse_args()
    if args.install:
        install()
    heads = ["tests of", "version", "run", "ask us", "answers", "hold", "rounded", "smaller", "differ", "notice 5 %"]
    print("| " + " | ".join(heads) + " |", "|---|---" + "|--:" * 8 + "|", sep="\n")
    differing = []
    with tempfile.TemporaryDirectory() as temporary:
        for suite in [suite for suite in SUITES if suite.name in args.suites]:
            checkout = args.pfl if suite.package == "pfl" else None
            cells, different = row(suite, (checkout or tests_of(suite, args.folder or Path(temporary))).resolve())
            print("| " + " | ".join(cells) + " |", flush=True)
            differing += different
    print("", *differing, sep="\n")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
