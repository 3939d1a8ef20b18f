"""Finds names of types that are defined more than once in the workspace, and fails if there are more than
`names.toml` allows.

    python3 checks/names.py            compare with the budget
    python3 checks/names.py --write    lower the budget to today's names
    python3 checks/names.py --list     list every such name with its files

It counts structs, enums, unions, traits and type aliases at the level of a module, not those inside a function. Two
definitions in one file are the same type on different platforms. Tests and the testkit are not counted.
"""

import collections
import re
import sys
import tomllib

from budget import ROOT, files
from circles import code_only, without_tests

BUDGET = ROOT / "checks/names.toml"
TYPE = re.compile(r"^(pub(?:\([^)]*\))? +)?(?:unsafe )?(?:struct|enum|union|trait|type) +(\w+)", re.MULTILINE)
# Every library has this alias for its own error type, as `std::io` and `std::fmt` do.
CONVENTIONAL = {"Result"}
LEFT_OUT = re.compile(r"/tests/|/tests\.rs$|^crates/testkit/")


def definitions():
    """The files that define a name: of all types, and of the public ones."""
    everything, public = collections.defaultdict(set), collections.defaultdict(set)
    for name, text in files(["crates/*/src/*"], {".rs"}):
        if LEFT_OUT.search(name):
            continue
        for visible, defined in TYPE.findall(without_tests(code_only(text))):
            if defined in CONVENTIONAL:
                continue
            everything[defined].add(name)
            if visible.strip() == "pub":
                public[defined].add(name)
    return everything, public


def repeated(names):
    return sorted(name for name, places in names.items() if len(places) > 1)


def main(arguments):
    everything, public = definitions()
    reused, twice = repeated(everything), repeated(public)
    if arguments == ["--list"]:
        for name in reused:
            print(f"{name}{' (public)' if name in twice else ''}: {', '.join(sorted(everything[name]))}")
    share = f"{len(reused)} of {len(everything)} type names are defined more than once ({len(reused) / len(everything):.1%})"
    if arguments == ["--list"]:
        print(f"{share}, {len(twice)} of them as public types")
        return 0
    allowed = tomllib.loads(BUDGET.read_text(encoding="utf-8")) if BUDGET.exists() else None
    if allowed is not None:
        new = [name for name in twice if name not in allowed["public"]]
        for name in new:
            print(f"the public type `{name}` is defined more than once: {', '.join(sorted(public[name]))}")
        if len(reused) > allowed["reused"]:
            print(f"{share}; {allowed['reused']} are allowed, see `python3 checks/names.py --list`")
        if new or len(reused) > allowed["reused"]:
            return 1
    if arguments == ["--write"]:
        names = "".join(f'    "{name}",\n' for name in twice)
        BUDGET.write_text(
            "# Type names that checks/names.py still allows to be defined more than once. Only ever lowered: --write.\n"
            f"reused = {len(reused)}\npublic = [\n{names}]\n", encoding="utf-8")
    elif allowed != {"reused": len(reused), "public": twice}:
        print("fewer names are defined more than once than the budget allows: run `python3 checks/names.py --write`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
