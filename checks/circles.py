"""Finds circles between the modules of a crate. (Cargo refuses those between crates.)

    python3 checks/circles.py           fail if there is a circle
    python3 checks/circles.py --why     also print the imports that close each circle
    python3 checks/circles.py --crates  print the crates with the crates that each depends on

The crates come from `cargo metadata`; the modules of a crate are its source files. A file uses another one if it names
an item that the other defines, in a `use` or in a path; items that a module re-exports count for the module that
defines them. Tests, documentation and comments do not count.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATH = re.compile(r"(?<![\w:$])((?:crate|super|self)(?:\s*::\s*\w+)+)")
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
DEFINITION = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static)\s+(?:mut\s+)?(\w+)|macro_rules!\s*(\w+)")
RAW_STRING = re.compile(r'b?r(#*)"')
CHARACTER = re.compile(r"'(\\[^']+|\\'|[^\\'])'")


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_only(source):
    """The source with comments and strings blanked."""
    kept, at = [], 0
    while at < len(source):
        raw = RAW_STRING.match(source, at)
        if source.startswith("//", at):
            end = source.find("\n", at)
            end = len(source) if end < 0 else end
        elif source.startswith("/*", at):
            end = source.index("*/", at) + 2
        elif raw and not (at and (source[at - 1].isalnum() or source[at - 1] == "_")):
            end = source.index('"' + raw[1], raw.end()) + 1 + len(raw[1])
        elif source[at] == '"':
            end = at + 1
            while source[end] != '"':
                end += 2 if source[end] == "\\" else 1
            end += 1
        elif source[at] == "'" and (character := CHARACTER.match(source, at)):
            end = character.end()
        else:
            kept.append(source[at])
            at += 1
            continue
        kept.append(blank(source[at:end]))
        at = end
    return "".join(kept)


def without_tests(code):
    """The code with items under `#[cfg(test)]` blanked."""
    for marker in re.finditer(r"#\[cfg\((?:all\()?test[^\]]*\]", code):
        end, depth = marker.end(), 0
        while True:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
            if depth == 0 and code[end - 1] in "};":
                break
        code = code[:marker.start()] + blank(code[marker.start():end]) + code[end:]
    return code


def use_paths(tree):
    """The paths of a `use` tree, as lists of names."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        tree = re.sub(r"\s+as\s+\w+$", "", tree)
        return [[name.strip() for name in tree.split("::") if name.strip()]]
    head = [name.strip() for name in tree[:brace].split("::") if name.strip()]
    parts, depth, part = [], 0, ""
    for character in tree[brace + 1:tree.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [head + path for part in parts if part.strip() for path in use_paths(part)]


class Crate:
    """The modules of a crate and the imports between them."""

    def __init__(self, name, folder):
        self.name = name
        self.code = {}
        for file in sorted(folder.rglob("*.rs")):
            place = file.relative_to(folder)
            if "tests" in place.parts or place.name in ("tests.rs", "main.rs") or place.parts[0] == "bin":
                continue
            module = () if place.name == "lib.rs" else tuple(place.with_suffix("").parts)
            self.code[module] = without_tests(code_only(file.read_text(encoding="utf-8")))
        self.defined = {
            module: {match[1] or match[2] for match in DEFINITION.finditer(code)} for module, code in self.code.items()
        }
        # What a `pub use` of a module names, and where that is.
        self.exported = collections.defaultdict(dict)
        self.used = []
        for module, code in self.code.items():
            rest = code
            for match in USE.finditer(code):
                rest = rest[:match.start()] + blank(match[0]) + rest[match.end():]
                line = code[:match.start()].count("\n") + 1
                for path in use_paths(match[2]):
                    target = self.absolute(module, path)
                    if target is None:
                        continue
                    if match[1] and target:
                        self.exported[module][target[-1]] = target
                    else:
                        self.used.append((module, target, line))
            for match in PATH.finditer(rest):
                if rest[:match.start()].rstrip().endswith(("pub(in", "pub(")):
                    continue
                target = self.absolute(module, re.split(r"\s*::\s*", match[1]))
                if target:
                    self.used.append((module, target, rest[:match.start()].count("\n") + 1))
        self.edges = collections.defaultdict(list)
        for module, target, line in self.used:
            for owner in self.owners(target):
                if owner != module:
                    self.edges[module, owner].append(f"{target[-1]} (line {line})")

    def absolute(self, module, path):
        """A path from the crate's root; `None` for one into another crate."""
        if path[0] == "crate":
            return tuple(path[1:])
        place = module
        if path[0] in ("super", "self"):
            while path and path[0] in ("super", "self"):
                place = place[:-1] if path[0] == "super" else place
                path = path[1:]
            return place + tuple(path)
        return module + tuple(path) if module + (path[0],) in self.code else None

    def owners(self, path, seen=()):
        """The modules whose items a path names: one, or all of a glob."""
        for cut in range(len(path), -1, -1):
            if path[:cut] in self.code:
                module, rest = path[:cut], path[cut:]
                break
        if not rest:
            return {module} if module else set()  # the module itself, under whose name items are used
        if rest[0] == "*":
            return {owner for target in self.exported[module].values() for owner in self.owners(target)} | {module}
        target = self.exported[module].get(rest[0])
        if target and target not in seen:
            return self.owners(target + rest[1:], (*seen, target))
        return {module}

    def circles(self):
        """Sets of modules that all use each other: of files, then of folders next to each other with all they contain."""
        users = collections.defaultdict(set)
        for module, owner in self.edges:
            users[module].add(owner)
        yield from (circle for circle in components(self.code, users) if len(circle) > 1)
        for parent in {module[:-1] for module in self.code if module}:
            depth = len(parent)
            inside = [edge for edge in self.edges if all(m[:depth] == parent and len(m) > depth for m in edge)]
            users = collections.defaultdict(set)
            for module, owner in inside:
                if module[depth] != owner[depth]:
                    users[module[: depth + 1]].add(owner[: depth + 1])
            yield from (circle for circle in components(list(users), users) if len(circle) > 1)


def components(nodes, edges):
    """Strongly connected components (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(nodes):
        if node not in index:
            visit(node)
    return found


def workspace():
    """Name, folder and dependencies (among themselves) of the crates of the workspace."""
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--offline"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    names = {package["name"] for package in packages}
    for package in sorted(packages, key=lambda package: package["name"]):
        needs = {need["name"] for need in package["dependencies"] if need["kind"] is None} & names
        yield package["name"], pathlib.Path(package["manifest_path"]).parent / "src", sorted(needs)


def main(arguments):
    sys.setrecursionlimit(10_000)
    if arguments == ["--crates"]:
        for name, _, needs in workspace():
            print(f"{name}: {', '.join(needs)}")
        return 0
    wrong = 0
    for name, folder, _ in workspace():
        if not folder.is_dir():
            continue
        crate = Crate(name, folder)
        for circle in crate.circles():
            wrong += 1
            print(f"{name}: {len(circle)} modules in a circle: {', '.join('::'.join(m) or 'lib' for m in circle)}")
            if "--why" in arguments:
                for (module, owner), items in sorted(crate.edges.items()):
                    ends = [next((m for m in circle if m == end[: len(m)]), None) for end in (module, owner)]
                    if None not in ends and ends[0] != ends[1]:
                        print(f"    {'::'.join(module) or 'lib'} -> {'::'.join(owner) or 'lib'}: {', '.join(items[:4])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
