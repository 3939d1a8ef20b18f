"""Runs the examples of the documents, and compares or rewrites their outputs.

    python3 docs/run.py [--write] [--list] [PAGE ...]

needs the program as `evertally` on the path, or in EVERTALLY_BIN, and the Python package for Python examples.
`crates/py/test` runs all pages; `docs/update` rewrites all outputs.

The blocks of a page run in order, in an empty folder that has a copy of `examples`. What a reader does not see is in
comments; a block is a fence with one of these words:

    ```console                commands after `$ `, each with its output; an error is output that begins with `error`
    ```sh                     a script that must succeed
    ```python                 statements that share their names; with `>>>`, followed by their output
    ```toml file=NAME         a file that is written into the folder (any language); without a name it must parse
    ```text output            the output of the block before (any language)
    <!-- run: COMMAND -->     a command that readers need not see
    <!-- picture: FILE -->    before an image: its file is what the commands have written to FILE
    <!-- not run: REASON -->  before a block that cannot run; `--list` counts them
    <!-- needs: PACKAGE -->   the page runs where this Python package is installed

Rust blocks are run by `cargo test` (crates/testkit/src/lib.rs). In an expected output `[..]` is any text within a line,
and a line `...` is any lines. Times of runs and durations may differ. New keys are fixed test keys, so that values can
be shown.
"""

import argparse
import ast
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["*.md", "crates/py/README.md", "docs/**/*.md", "examples/README.md", "examples/*/README.md"]
FENCE = re.compile(r"^( *)```(\w*)[ \t]*([^\n`]*)\n(.*?)^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^ *<!-- (run|picture|not run|needs): (.*?) -->[ \t]*$", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
RUN = {"console", "sh", "python", "toml", "json", "rust"}
# Texts that differ from run to run, with the placeholders of a comparison.
VARYING = [
    (re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "(time)"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|seconds)\b"), "(duration)"),
]
SECONDS = 120


class Wrong(Exception):
    """An example that fails, or a block that is not understood."""


def pages():
    """All pages, as paths relative to the repository."""
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


class Block:
    """A fence or a comment of a page."""

    def __init__(self, kind, text, line, span, words=""):
        self.kind, self.text, self.line, self.span = kind, text, line, span
        self.is_output = "output" in words.split()
        self.file = next((word[5:] for word in words.split() if word.startswith("file=")), None)


def blocks(page):
    """The blocks of a page in order."""
    found, fences = [], [hit.span() for hit in FENCE.finditer(page)]
    for hit in FENCE.finditer(page):
        line = page.count("\n", 0, hit.start()) + 1
        text = re.sub(f"^{hit[1]}", "", hit[4], flags=re.MULTILINE)
        found.append(Block(hit[2], text, line, hit.span(4), hit[3]))
    for hit in COMMENT.finditer(page):
        if not any(start < hit.start() < end for start, end in fences):
            found.append(Block(hit[1], hit[2], page.count("\n", 0, hit.start()) + 1, hit.span()))
    return sorted(found, key=lambda block: block.span)


def matches(expected, actual):
    """Whether an output is the expected one."""

    def lines(text):
        for pattern, name in VARYING:
            text = pattern.sub(name, text)
        return [line.rstrip() for line in text.rstrip().split("\n")]

    def is_line(pattern, line):
        return re.fullmatch(".*".join(map(re.escape, pattern.split("[..]"))), line) is not None

    def is_all(patterns, rest):
        if not patterns:
            return not rest
        if patterns[0] == "...":
            return any(is_all(patterns[1:], rest[skipped:]) for skipped in range(len(rest) + 1))
        return bool(rest) and is_line(patterns[0], rest[0]) and is_all(patterns[1:], rest[1:])

    return is_all(lines(expected), lines(actual))


class Session:
    """One page while it runs."""

    def __init__(self, name, program):
        self.name, self.page = name, (ROOT / name).read_text(encoding="utf-8")
        self.folder = ROOT / "target/documents" / name.replace("/", "-").removesuffix(".md")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("out", "*.key*"))
        self.names, self.replaced, self.before, self.picture = {"__name__": "__main__"}, [], "", None
        self.environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment["PATH"] = f"{self.shim(program)}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"

    def shim(self, program):
        """A folder with the program; its `key new` makes the next test key."""
        folder = self.folder / ".bin"
        folder.mkdir()
        script = folder / "evertally"
        script.write_text(
            f"""#!/bin/bash
if [ "$1 $2" != "key new" ]; then exec {program} "$@"; fi
message=$({program} "$@" 2>&1) || {{ echo "$message" >&2; exit 2; }}
number=$(ls {folder} | grep -c made) key={ROOT}/docs/keys/$((number % 3 + 1))
touch {folder}/made$number
cat $key.txt > "$3" && cp $key.ledger "$3.ledger" && chmod 600 "$3" "$3.ledger"
id=$(sed -n 's/^id //p' "$3")
sed "s/wrote key [0-9a-f]*/wrote key $id/" <<< "$message" >&2
""",
            encoding="utf-8",
        )
        script.chmod(0o755)
        return folder

    def shell(self, command):
        """Runs a command: its output, with errors, and its status."""
        with subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as running:
            try:
                output, _ = running.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                raise
        return output.decode().replace(f"{self.folder}/", "").replace(str(self.folder), "."), running.returncode

    def console(self, text):
        """The block with the outputs of its commands."""
        parts, lines = [], text.splitlines()
        if lines and not lines[0].startswith("$ "):
            raise Wrong("a console block begins with `$ `")
        while lines:
            command = [lines.pop(0)]
            while lines and (command[-1].endswith("\\") or lines[0].startswith("> ")):
                command.append(lines.pop(0))
            expected = []
            while lines and not lines[0].startswith("$ "):
                expected.append(lines.pop(0))
            script = "\n".join(line.removeprefix("$ ").removeprefix("> ") for line in command)
            actual, status = self.shell(script)
            if status != 0 and not re.search(r"^error", actual, re.MULTILINE):
                raise Wrong(f"status {status} of `{script}`:\n{actual}")
            parts.append("\n".join(command) + "\n" + self.compared("\n".join(expected), actual))
        return "".join(parts)

    def compared(self, expected, actual):
        """The text of an output: the expected one if it matches."""
        actual = "".join(line.rstrip() + "\n" for line in actual.rstrip().split("\n")) if actual.strip() else ""
        if "\n\n" not in expected.strip("\n"):  # a blank line after an output belongs to the page
            tail = re.search(r"\n*\Z", expected)[0]
            actual += tail[1:] if actual and len(tail) > 1 else ""
        return (expected.rstrip("\n") + "\n" if expected.strip() else expected) if matches(expected, actual) else actual

    def run_python(self, source, mode):
        """Runs statements with the page's names: their standard output."""
        source = source.replace("et.SecretKey.generate()", "et.SecretKey.insecure_from_test_seed(et.TestSeed(1))")
        printed, here = io.StringIO(), os.getcwd()
        os.chdir(self.folder)
        path = os.environ["PATH"]
        os.environ["PATH"] = self.environment["PATH"]
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(source, self.name, mode), self.names)
        finally:
            os.chdir(here)
            os.environ["PATH"] = path
        return printed.getvalue()

    def doctest(self, text):
        """The block with the outputs of its statements."""
        parts, lines = [], text.splitlines()
        while lines:
            source = []
            while lines and (lines[0].startswith(">>> ") if not source else lines[0].startswith("...")):
                source.append(lines.pop(0))
            if not source:
                parts.append(lines.pop(0) + "\n")
                continue
            expected = []
            while lines and not lines[0].startswith(">>> "):
                expected.append(lines.pop(0))
            code = "\n".join(line[4:] for line in source) + "\n"
            try:
                actual = self.run_python(code, "single")
            except Exception as error:  # an error that the page shows
                if not any("Error" in line for line in expected):
                    raise
                actual = f"{type(error).__module__.replace('builtins', '')}.{type(error).__name__}: {error}".lstrip(".")
            parts.append("\n".join(source) + "\n" + self.compared("\n".join(expected), actual))
        return "".join(parts)

    def run(self, block):
        """Runs a block; the text that it should have."""
        if block.is_output:
            return self.compared(block.text, self.before)
        self.before = ""
        if block.file is not None and (ROOT / block.file).parent.is_dir() and "/" in block.file:
            return block.text  # a file of the tree, which a check adds
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        match block.kind:
            case "run" | "sh":
                self.before, status = self.shell(f"set -e\n{block.text}")
                if status != 0:
                    raise Wrong(f"status {status}:\n{self.before}")
            case "picture":
                self.picture = block.text
            case "console":
                return self.console(block.text)
            case "python" if block.file is None and re.search(r"^>>> ", block.text, re.MULTILINE):
                return self.doctest(block.text)
            case "python" if block.file is None:
                ast.parse(block.text)
                self.before = self.run_python(block.text, "exec")
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
        return block.text

    def draw(self, start, write):
        """Compares the picture that follows with the one that was drawn."""
        hit = IMAGE.search(self.page, start)
        if hit is None:
            raise Wrong("no image follows")
        drawn, shown = self.folder / self.picture, (ROOT / self.name).parent / hit[1]
        if not shown.exists() or drawn.read_bytes() != shown.read_bytes():
            if not write:
                raise Wrong(f"{hit[1]} is not the picture that the commands draw")
            shown.write_bytes(drawn.read_bytes())

    def all(self, write):
        """Runs the page: the problems, and the page with its outputs."""
        problems, texts, skips = [], [], False
        for block in blocks(self.page):
            try:
                if block.kind == "not run":
                    skips = True
                    continue
                text = block.text if skips and block.kind in RUN else self.run(block)
                skips = False
                if block.kind == "picture":
                    self.draw(block.span[1], write)
                if text != block.text:
                    texts.append((block.span, text))
                    problems.append(f"{self.name}:{block.line}: the output is\n{text}")
            except Exception as error:
                name = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
                problems.append(f"{self.name}:{block.line}: {name}{error}")
        page = self.page
        for (start, end), text in reversed(texts):
            indent = re.search(r"[ ]*\Z", page[: page.rindex("```", 0, start)])[0]
            page = page[:start] + re.sub("^(?=.)", indent, text, flags=re.MULTILINE) + page[end:]
        return problems, page


def run(name, program, write=False):
    """Runs a page; the problems that remain."""
    session = Session(name, program)
    problems, page = session.all(write)
    if write and page != session.page:
        (ROOT / name).write_text(page, encoding="utf-8")
        problems = [problem for problem in problems if ": the output is\n" not in problem]
    return problems


def missing(name):
    """The packages that a page needs and that are not installed."""
    needed = [block.text for block in blocks((ROOT / name).read_text(encoding="utf-8")) if block.kind == "needs"]
    return [package for package in needed if importlib.util.find_spec(package) is None]


def not_run():
    """Page, line and reason of every block that is not run."""
    for name in pages():
        for block in blocks((ROOT / name).read_text(encoding="utf-8")):
            if block.kind == "not run":
                yield name, block.line, block.text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="write the outputs into the pages")
    parser.add_argument("--list", action="store_true", help="list the blocks that are not run")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="paths in the repository; all without")
    arguments = parser.parse_args()
    if arguments.list:
        print(*(f"{name}:{line}: {reason}" for name, line, reason in not_run()), sep="\n")
        return 0
    program = os.environ.get("EVERTALLY_BIN") or shutil.which("evertally") or sys.exit("no program `evertally`")
    failed = False
    for name in arguments.pages or pages():
        if lacking := missing(name):
            print(f"skipped {name}: {', '.join(lacking)} is not installed")
            continue
        problems = run(name, os.path.abspath(program), arguments.write)
        print(*problems or [f"ok {name}"], sep="\n")
        failed |= bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
