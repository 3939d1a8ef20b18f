"""Budgets: counts of known problems by area, in a TOML file that is only ever lowered."""

import pathlib
import subprocess
import tomllib
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Vendored files are not checked.
VENDORED = ("crates/server/web/uPlot.",)


def names(paths):
    """Files that git tracks or does not ignore; in a folder without `.git`, all files outside build folders."""
    if (ROOT / ".git").exists():  # git in a copy under an ignored folder would list nothing
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return set(listed.stdout.split("\0"))
    built = {"target", "node_modules", "__pycache__"}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    kept = {path.as_posix() for path in found if not built & set(path.parts)}
    return {name for name in kept if not paths or any(name.startswith(path) or fnmatch(name, path) for path in paths)}


def files(paths, endings):
    """Name and text of tracked files and of untracked files that git does not ignore, without vendored ones."""
    for name in sorted(names(paths)):
        path = ROOT / name
        if path.suffix in endings and path.is_file() and not name.startswith(VENDORED):
            yield name, path.read_text(encoding="utf-8")


def area(name):
    """Code by crate; all documents together."""
    parts = name.split("/")
    if name.endswith(".md"):
        return "documents"
    return "/".join(parts[:2]) if parts[0] == "crates" else "other code"


def compare(check, things, found, write):
    """Compares counts with `checks/CHECK.toml`; with `write`, lowers it to them. Returns the exit status."""
    budget = ROOT / f"checks/{check}.toml"
    found = {place: count for place, count in sorted(found.items()) if count}
    allowed = tomllib.loads(budget.read_text(encoding="utf-8")) if budget.exists() else None
    more = [place for place in found if allowed is not None and found[place] > allowed.get(place, 0)]
    for place in more:
        where = place if "/" in place else "."
        print(f"{place}: {found[place]} {things}, {allowed.get(place, 0)} allowed; `python3 checks/{check}.py {where}`")
    if more:
        return 1
    if write:
        lines = "".join(f'"{place}" = {count}\n' for place, count in found.items())
        title = f"# Number of {things} that checks/{check}.py still allows, by area. Only ever lowered: --write.\n"
        budget.write_text(title + lines, encoding="utf-8")
    elif found != allowed:
        print(f"fewer {things} than the budget allows: run `python3 checks/{check}.py --write`")
        return 1
    return 0
