"""Finds code that names a family of mechanisms, and families that the documentation omits.

    python3 checks/families.py         fail if there are any

Every property of a family is a column of its row (`crates/evertally/src/mechanism/registry/family.rs`), so that a new
family is known everywhere. The registry, the families' folders, tests and the files of `MAY_NAME` may name families.
"""

import re
import sys

from budget import ROOT, files
from circles import code_only, without_tests

FAMILIES = "crates/evertally/src/mechanism/"
TESTS = re.compile(r"(^|/)tests?(\.rs$|/)|^benches/|^fuzz/")
VARIANT = re.compile(r"\bMechanismName::([A-Z]\w*[a-z]\w*)")
MAY_NAME = {
    # The sampling of examples decides which matrices compete.
    # Figures draw members that the literature names.
    "crates/cli/src/lab/figures/by_delta.rs",
    "crates/cli/src/lab/figures/curves.rs",
}


def named():
    """File, line and family of every place."""
    for name, text in files((), {".rs"}):
        if name.startswith(FAMILIES) or TESTS.search(name):
            continue
        for hit in VARIANT.finditer(without_tests(code_only(text))):
            yield name, text.count("\n", 0, hit.start()) + 1, hit[1]


def undocumented():
    """Families without a row in the table of docs/mechanisms.md."""
    rows = (ROOT / FAMILIES / "name/rows.rs").read_text(encoding="utf-8")
    document = (ROOT / "docs/mechanisms.md").read_text(encoding="utf-8")
    stems = re.findall(r'stem: "([^"]+)"', rows)
    return [stem for stem in stems if not re.search(rf"^\| `{re.escape(stem)}[`(]", document, re.MULTILINE)]


def main():
    found = list(named())
    wrong = [place for place in found if place[0] not in MAY_NAME]
    for name, line, family in wrong:
        print(f"{name}:{line}: names the family `{family}`; add a column to the registry instead")
    unused = sorted(MAY_NAME - {name for name, _, _ in found})
    for name in unused:
        print(f"checks/families.py: {name} names no family; remove it from MAY_NAME")
    missing = undocumented()
    for stem in missing:
        print(f"docs/mechanisms.md: the tables have no row for the family `{stem}`")
    return 1 if wrong or unused or missing else 0


if __name__ == "__main__":
    sys.exit(main())
