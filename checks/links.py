"""Finds links in documents to files, headings and pictures that do not exist, and pages that nothing links to.

    python3 checks/links.py
"""

import re
import sys
from functools import cache

from budget import ROOT, files

LINK = re.compile(r"(?<!\\)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
FENCE = re.compile(r"^( *)(`{3,})[^`\n]*\n.*?^\1\2`*[ \t]*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
# Pages that readers find by themselves.
ENTRIES = re.compile(r"(^|/)(README|CHANGELOG|CONTRIBUTING|SUMMARY)\.md$|^\.github/")


def blank(hit):
    """As many lines, without the text."""
    return "\n" * hit[0].count("\n")


def slug(heading):
    """The anchor of a heading, as GitHub and mdBook make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@cache
def anchors(path):
    """The anchors of a page."""
    found = {}
    page = FENCE.sub(blank, path.read_text(encoding="utf-8"))
    for heading in HEADING.findall(page):
        name = slug(heading)
        found[name] = found.get(name, -1) + 1
    names = {name if number == 0 else f"{name}-{number}" for name, last in found.items() for number in range(last + 1)}
    return names | set(re.findall(r'<a (?:id|name)="([^"]+)"', page))


def main():
    problems, linked, pages = [], set(), set()
    for name, text in files((), {".md"}):
        pages.add(name)
        page = re.sub(r"`[^`\n]*`", blank, FENCE.sub(blank, text))
        for hit in LINK.finditer(page):
            target, line = hit[1], page.count("\n", 0, hit.start()) + 1
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = ((ROOT / name).parent / file).resolve() if file else ROOT / name
            if not path.exists():
                problems.append(f"{name}:{line}: {target} does not exist")
            elif anchor and path.suffix == ".md" and anchor not in anchors(path):
                problems.append(f"{name}:{line}: {file or name} has no heading #{anchor}")
            elif file and path != ROOT / name:
                linked.add(path.relative_to(ROOT).as_posix())
    for page in sorted(pages - linked):
        if not ENTRIES.search(page):
            problems.append(f"{page}: no document links to it")
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
