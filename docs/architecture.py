"""Draws docs/images/architecture.svg: the crates with their modules, from `cargo metadata` and the module tree.

    python3 docs/architecture.py          fail if the picture is stale
    python3 docs/architecture.py --write  write it
"""

import json
import pathlib
import re
import subprocess
import sys
from html import escape
from itertools import pairwise

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/images/architecture.svg"
MODULE = re.compile(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+;")
# In pixels.
WIDTH, PADDING, LINE, TITLE, GAP, ROW_GAP, LETTER = 290, 10, 15, 22, 22, 34, 5.9
STYLE = """
text { font: 11.5px system-ui, sans-serif; fill: #333; }
.name { font-weight: 600; font-size: 14px; fill: #111; }
.modules { fill: #666; font-size: 10.5px; }
rect { fill: #fff; stroke: #8aa4c8; }
.uses { fill: #1f5fa8; font-size: 10.5px; }
.program { fill: #eef4fb; }
path { fill: none; stroke: #9aa6b5; stroke-width: 1.2; }
"""


def crates():
    """Name to description, dependencies, modules, and whether other crates use it."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    packages = json.loads(done.stdout)["packages"]
    names = {package["name"] for package in packages}
    found = {}
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        root = next((path for path in (folder / "src/lib.rs", folder / "src/main.rs") if path.exists()), None)
        used = {item["name"] for item in package["dependencies"] if item["kind"] is None} & names
        code = root.read_text("utf-8") if root else ""
        modules = MODULE.findall(TESTS.sub("", code))
        found[package["name"]] = (package["description"] or "", used, sorted(modules))
    # Tests use everything, and nothing uses them.
    found.pop("evertally-testkit", None)
    return found


def direct(found, name):
    """Dependencies of a crate that it does not have through others."""
    used = found[name][1]
    return sorted(one for one in used if not any(one in reached(found, other) for other in used - {one}))


def reached(found, name):
    """All dependencies of a crate."""
    return found[name][1].union(*(reached(found, one) for one in found[name][1]))


def level(found, name):
    """The length of the longest path to a crate without dependencies."""
    return 1 + max((level(found, one) for one in found[name][1]), default=-1)


def rows_of(found):
    """The crates of each row, lowest first: programs are at the top, other crates above those they use."""
    used = set().union(*(entry[1] for entry in found.values()))
    rows = {}
    for name in sorted(used):
        rows.setdefault(level(found, name), []).append(name)
    return [*(rows[number] for number in sorted(rows)), sorted(set(found) - used)]


def wrapped(text, width):
    """The lines of a text."""
    lines = [""]
    for word in text.split():
        if lines[-1] and (len(lines[-1]) + 1 + len(word)) * LETTER > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def draw(found):
    """The picture."""
    texts = {}
    for name, (about, _, modules) in found.items():
        shown = [("", line) for line in wrapped(about, WIDTH - 2 * PADDING)]
        if used := direct(found, name):
            shown += [("uses", line) for line in wrapped("uses " + ", ".join(used), WIDTH - 2 * PADDING)]
        texts[name] = shown + [("modules", line) for line in wrapped(" · ".join(modules), WIDTH - 2 * PADDING)]
    rows = rows_of(found)
    columns = max(map(len, rows))
    total = columns * (WIDTH + GAP) + GAP
    boxes, top = {}, GAP
    for names in reversed(rows):
        height = max(TITLE + LINE * len(texts[name]) for name in names) + PADDING
        left = (total - len(names) * (WIDTH + GAP) + GAP) / 2
        for place, name in enumerate(names):
            boxes[name] = (left + place * (WIDTH + GAP), top, height)
        top += height + ROW_GAP
    parts = []
    # Lines between neighbouring rows only: longer ones would cross boxes.
    for upper, lower in [(name, one) for low, high in pairwise(rows) for name in high for one in low]:
        if lower in direct(found, upper):
            (x, y, height), (to_x, to_y, _) = boxes[upper], boxes[lower]
            start, end, middle = x + WIDTH / 2, to_x + WIDTH / 2, (y + height + to_y) / 2
            curve = f"{start:.0f},{middle:.0f} {end:.0f},{middle:.0f} {end:.0f},{to_y:.0f}"
            parts.append(f'<path d="M{start:.0f},{y + height:.0f} C{curve}"/>')
    used = set().union(*(entry[1] for entry in found.values()))
    for name in sorted(found):
        x, y, height = boxes[name]
        kind = "" if name in used else ' class="program"'
        parts.append(f'<rect{kind} x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{height:.0f}" rx="5"/>')
        parts.append(f'<text class="name" x="{x + PADDING:.0f}" y="{y + TITLE - 3:.0f}">{name}</text>')
        for number, (style, line) in enumerate(texts[name], 1):
            style = f' class="{style}"' if style else ""
            at = f'x="{x + PADDING:.0f}" y="{y + TITLE - 3 + LINE * number:.0f}"'
            parts.append(f"<text{style} {at}>{escape(line)}</text>")
    height = top - ROW_GAP + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {height:.0f}" width="{total:.0f}">'
    body = [head, f"<style>{STYLE}</style>", f'<rect width="{total:.0f}" height="{height:.0f}" stroke="none"/>']
    return "\n".join([*body, *parts, "</svg>", ""])


def main(arguments):
    picture = draw(crates())
    if arguments == ["--write"]:
        PICTURE.write_text(picture, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture:
        print("docs/images/architecture.svg is stale: run `python3 docs/architecture.py --write`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
