"""Finds workflows of .github/workflows that name scripts that do not exist, or that lack limits.

    python3 checks/workflows.py [FILE...]

Reads lines, without a parser of YAML. A workflow has `permissions` at the top. A job has `timeout-minutes`, or calls
another workflow, which must exist. An action has the full hash of a commit. A `run` step that names a file of the
repository names one that exists; if it is the command itself, it must be executable.
"""

import os
import pathlib
import re
import sys

from budget import ROOT, names

FOLDER = ROOT / ".github/workflows"
JOB = re.compile(r"  ([\w-]+):\s*(#.*)?$")
USES = re.compile(r"\s+(?:- )?uses:\s*(\S+)")
RUN = re.compile(r"(\s*(?:- )?)run:\s*(.*)$")
PATH = re.compile(r"(?:\./)?[\w.-]+(?:/[\w.*-]+)*")
# Words between commands, and words that may precede a command.
SEPARATORS = re.compile(r"\s*(?:&&|\|\||[;|()]|\$\()\s*")
ASSIGNMENT = re.compile(r"\w+=")
# Folders that earlier steps fill.
BUILT = ("target/", "fuzz/corpus", "fuzz/artifacts")


def commands(lines):
    """Number and text of each line of a `run` step; continued lines are one."""
    block, begun, first = None, "", 0
    for number, line in enumerate(lines, 1):
        if block is not None and line.strip() and len(line) - len(line.lstrip()) <= block:
            block = None
        if block is None:
            if not (hit := RUN.match(line)):
                continue
            if hit[2].rstrip() in ("|", ">", "|-", ">-"):
                block = len(hit[1])
            else:
                yield number, hit[2]
            continue
        first = first or number
        if line.rstrip().endswith("\\"):
            begun += line.rstrip()[:-1]
            continue
        yield first, begun + line.strip()
        begun, first = "", 0


def paths(command):
    """Each path in a command, and whether it is the program that is run."""
    for part in SEPARATORS.split(command):
        words = part.split()
        while words and ASSIGNMENT.match(words[0]):
            words.pop(0)
        for position, word in enumerate(words):
            word = word.strip("\"'`")
            if "/" in word and PATH.fullmatch(word):
                yield word, position == 0


def missing(command, top):
    """The problems of the paths in a command."""
    for word, is_program in paths(command):
        name = word.removeprefix("./")
        # Arguments in other folders are not of the repository, such as `origin/main`.
        is_ours = is_program or word.startswith("./") or name.split("/")[0] in top
        if not is_ours or name.startswith(BUILT):
            continue
        path = ROOT / name
        if "*" in name:
            if not any(ROOT.glob(name)):
                yield f"no file matches {name}"
        elif not path.exists():
            yield f"{name} does not exist"
        elif is_program and not os.access(path, os.X_OK):
            yield f"{name} is not executable: chmod +x {name}"


def problems(text, top):
    """Line and description of everything wrong in a workflow."""
    lines = text.splitlines()
    if not any(line.startswith("permissions:") for line in lines):
        yield 1, "the workflow has no permissions: add `permissions:` with `contents: read`"
    start = next((number for number, line in enumerate(lines) if line.startswith("jobs:")), None)
    if start is None:
        yield 1, "the workflow has no jobs"
        return
    begins = [number for number in range(start + 1, len(lines)) if JOB.match(lines[number])]
    if not begins:
        yield start + 1, "no job is indented by two blanks, as this check expects"
    for begin, end in zip(begins, [*begins[1:], len(lines)]):
        # A job that `uses` another workflow has the limits of that workflow's jobs.
        if not any(re.match(r"    (timeout-minutes|uses):", line) for line in lines[begin + 1 : end]):
            yield begin + 1, f"the job {JOB.match(lines[begin])[1]} has no timeout-minutes"
    for number, line in enumerate(lines, 1):
        if not (hit := USES.match(line)):
            continue
        if hit[1].startswith("./"):
            if not (ROOT / hit[1]).exists():
                yield number, f"{hit[1]} does not exist"
        elif not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", hit[1]):
            yield number, f"{hit[1]} is not pinned: name the full hash of a commit, and its version in a comment"
    for number, command in commands(lines):
        for problem in missing(command, top):
            yield number, problem


def main(arguments):
    top = {name.split("/")[0] for name in names(()) if "/" in name}
    files = [pathlib.Path(name).resolve() for name in arguments] or sorted(FOLDER.glob("*.y*ml"))
    found = False
    for path in files:
        for line, problem in sorted(problems(path.read_text(encoding="utf-8"), top)):
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{name}:{line}: {problem}")
            found = True
    if not files:
        print(f"there are no workflows in {FOLDER.relative_to(ROOT)}")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
