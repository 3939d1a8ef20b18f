"""Counts phrases of our old dialect, and fails where there are more than `words.toml` allows.

    python3 checks/words.py            compare with the budget
    python3 checks/words.py --write    lower the budget to today's counts
    python3 checks/words.py PATH...    list every hit in these files or folders

The budget only shrinks: a file that has fewer hits than its area's budget makes the check ask for `--write`.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = ROOT / "checks/words.toml"
ENDINGS = {".rs", ".py", ".pyi", ".js", ".html", ".toml", ".md"}
# Vendored, generated, or this list itself.
LEFT_OUT = ("crates/server/assets/vendor/", "crates/server/web/vendor/", "checks/words")

# What not to write -> what to write. The left side is a regular expression.
PHRASES = {
    r"so (many|much)": "N, at most N, the first N",
    r"behind": "after, following",
    r"beside": "next to, alongside, with, compared with, in addition to",
    r"(go|goes|going|went|gone) on": "continues, resumes",
    r"whoever": "anyone who, the caller, the operator, a reader",
    r"of (its|their|his|her) own": "its own, separate",
    r"what (is|was|are|were|it|they|has|had|have|does|did|stands?|goes|comes|came|remains?|follows?|belongs)":
        "the thing's name",
    r"(given|give|gives|giving|gave|hand|hands|handed|handing) out": "returned, issued, published",
    r"anew": "again, from scratch",
    r"in the place of": "instead of",
    r"(by lot|lots)": "sampled, at random; Poisson subsampling, random allocation",
    r"(said|told)": "reported, declared, acknowledged",
    r"held against": "checked against, compared with",
    r"for ever": "permanently, forever",
    r"(?<!there )(is|are|was|were) (?-i:none|no)": "is not an X, there is no X",
    r"(leave|leaves|left|leaving)( \w+)? away": "omit",
    r"at hand": "available",
    r"(had from|is had|are had|was had)": "computed from, obtained from",
    r"as the data have it": "in the data",
    r"put by": "saved, checkpointed",
}
PATTERNS = {phrase: re.compile(rf"\b{phrase}\b", re.IGNORECASE) for phrase in PHRASES}


def files(paths):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    for name in listed.split("\0"):
        path = ROOT / name
        if name and path.suffix in ENDINGS and path.is_file() and not name.startswith(LEFT_OUT):
            yield name, path.read_text(encoding="utf-8")


def area(name):
    """Code by crate, documents by folder."""
    parts = name.split("/")
    if name.endswith(".md"):
        return "documents"
    return "/".join(parts[:2]) if parts[0] == "crates" else "other code"


def counts():
    found = collections.Counter()
    for name, text in files(()):
        found[area(name)] += sum(len(pattern.findall(text)) for pattern in PATTERNS.values())
    return found


def listing(paths):
    for name, text in files(paths):
        for number, line in enumerate(text.splitlines(), 1):
            for phrase, pattern in PATTERNS.items():
                for hit in pattern.finditer(line):
                    print(f"{name}:{number}: `{hit[0]}` -> {PHRASES[phrase]}\n    {line.strip()}")


def main(arguments):
    if arguments and arguments != ["--write"]:
        return listing(arguments)
    found = {place: count for place, count in sorted(counts().items()) if count}
    allowed = tomllib.loads(BUDGET.read_text(encoding="utf-8")) if BUDGET.exists() else None
    more = [place for place in found if allowed is not None and found[place] > allowed.get(place, 0)]
    for place in more:
        print(f"{place}: {found[place]} phrases of the list, {allowed.get(place, 0)} allowed; "
              f"see `python3 checks/words.py {'' if '/' not in place else place}`")
    if more:
        return 1
    if arguments:
        lines = "".join(f'"{place}" = {count}\n' for place, count in found.items())
        BUDGET.write_text("# Phrases of checks/words.py that are left, by area. Only ever lowered: --write.\n" + lines,
                          encoding="utf-8")
    elif found != allowed:
        print("fewer phrases than the budget allows: run `python3 checks/words.py --write`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
