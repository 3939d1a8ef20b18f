"""Adds the family of docs/adding-a-mechanism.md to a copy of the tree, and compiles it.

    python3 checks/toy_mechanism.py         compile the copy with its tests
    python3 checks/toy_mechanism.py --test  run the tests of the family, of the registry and of products as well

A code block with `file=PATH` is a new file; with `before="TEXT"` or `after="TEXT"` it is inserted at the only line of
the file that contains the text. Nothing else is changed, so the document names every file that a family needs.
"""

import os
import pathlib
import re
import subprocess
import sys

from budget import ROOT, names

DOCUMENT = "docs/adding-a-mechanism.md"
BLOCK = re.compile(r'^```\w+ file=(\S+)(?: (before|after)="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
TESTS = ["mechanism::tree::pairs", "mechanism::registry::tests", "mechanism::tests::products"]


def inserted(text, where, mark, block):
    """The text with a block before or after the only line that contains `mark`."""
    lines = text.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if mark in line]
    if len(places) != 1:
        raise SystemExit(f"{DOCUMENT}: {len(places)} lines contain `{mark}`, not one")
    place = places[0] + (where == "after")
    return "".join(lines[:place]) + block + "".join(lines[place:])


def changed():
    """The contents of the files that the document's blocks add or change."""
    files = {}
    for name, where, mark, block in BLOCK.findall((ROOT / DOCUMENT).read_text(encoding="utf-8")):
        path = ROOT / name
        if path.exists() != bool(where):
            raise SystemExit(f"{DOCUMENT}: {name} should {'exist' if where else 'not exist yet'}")
        text = path.read_text(encoding="utf-8") if where else ""
        files[name] = inserted(files.get(name, text), where, mark, block) if where else block
    if len(files) != 4:
        raise SystemExit(f"{DOCUMENT}: a family is 4 files, not {len(files)}: {', '.join(files)}")
    return files


def copied(copy, files):
    """Brings a copy of the tree up to date; files that are equal keep their times, so that they are not built again."""
    wanted = {name for name in names(()) if (ROOT / name).is_file()} | set(files)
    for name in wanted:
        content = files[name].encode() if name in files else (ROOT / name).read_bytes()
        path = copy / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for path in copy.rglob("*"):
        if path.is_file() and path.relative_to(copy).as_posix() not in wanted:
            path.unlink()


def main(arguments):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    copy, files = target / "toy-mechanism", changed()
    copied(copy, files)
    new = [name for name in files if name.endswith(".rs") and not (ROOT / name).exists()]
    cargo = ["cargo", "test", "--quiet", "--locked", "-p", "evertally", "--lib", "--", *TESTS]
    if arguments != ["--test"]:
        cargo = ["cargo", "check", "--quiet", "--locked", "-p", "evertally", "--lib", "--tests"]
    commands = [
        ["rustfmt", "--check", "--edition", "2024", "--config-path", str(copy), *new],
        [sys.executable, "checks/families.py"],
        cargo,
    ]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    for command in commands:
        if subprocess.run(command, cwd=copy, env=environment, check=False).returncode:
            print(f"the copy with the family of {DOCUMENT} fails: {' '.join(command)} (in {copy})")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
