"""Finds lines over 120 columns, and fails where there are more than `width.toml` allows.

    python3 checks/width.py            compare with the budget
    python3 checks/width.py --write    lower the budget to today's counts
    python3 checks/width.py PATH...    list every such line in these files or folders
"""

import collections
import sys

from budget import area, compare, files

WIDTH = 120
ENDINGS = {".rs", ".py", ".pyi", ".toml", ".md"}


def wide(paths):
    """Name, number and width of every line that is too wide."""
    for name, text in files(paths, ENDINGS):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > WIDTH:
                yield name, number, len(line)


def main(arguments):
    if arguments and arguments != ["--write"]:
        for name, number, width in wide(arguments):
            print(f"{name}:{number}: {width} columns")
        return 0
    found = collections.Counter(area(name) for name, _, _ in wide(()))
    return compare("width", "lines over 120 columns", found, bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
