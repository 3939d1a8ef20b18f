"""Counts phrases of our old dialect, and fails where there are more than `words.toml` allows.

    python3 checks/words.py            compare with the budget
    python3 checks/words.py --write    lower the budget to today's counts
    python3 checks/words.py PATH...    list every hit in these files or folders

The budget only shrinks: a file that has fewer hits than its area's budget makes the check ask for `--write`.
"""

import collections
import re
import sys

from budget import area, compare, files

ENDINGS = {".rs", ".py", ".pyi", ".js", ".html", ".toml", ".md"}
# This list itself.
LEFT_OUT = "checks/words"

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


def texts(paths):
    """Name and text of each file; without the code spans of documents, which quote fields and commands."""
    for name, text in files(paths, ENDINGS):
        if not name.startswith(LEFT_OUT):
            yield name, re.sub(r"`[^`\n]+`", "``", text) if name.endswith(".md") else text


def counts():
    found = collections.Counter()
    for name, text in texts(()):
        found[area(name)] += sum(len(pattern.findall(text)) for pattern in PATTERNS.values())
    return found


def listing(paths):
    for name, text in texts(paths):
        for number, line in enumerate(text.splitlines(), 1):
            for phrase, pattern in PATTERNS.items():
                for hit in pattern.finditer(line):
                    print(f"{name}:{number}: `{hit[0]}` -> {PHRASES[phrase]}\n    {line.strip()}")


def main(arguments):
    if arguments and arguments != ["--write"]:
        return listing(arguments)
    return compare("words", "phrases of the list", counts(), bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
