"""Fails if `cargo build` and `cargo build -p evertally-cli` compile a package with different features.

    python3 checks/one_build.py

Cargo unifies features over the packages that a command selects, so a feature that only a library of the workspace asks
for would make it compile that package, and everything that uses it, twice.
"""

import re
import subprocess
import sys

from budget import ROOT


def features(*selection):
    """The features of every package that a build of this selection compiles."""
    command = ["cargo", "tree", "--locked", "--edges", "normal,build", "--no-dedupe", "--prefix", "none"]
    listed = subprocess.run([*command, "--format", "{p}|{f}", *selection], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout
    packages = {}
    for line in filter(None, listed.splitlines()):
        name, on = re.sub(r" \((\*|proc-macro|/[^)]*)\)", "", line).rsplit("|", 1)
        packages.setdefault(name, set()).add(on)
    return packages


def main():
    program, libraries = features("--package", "evertally-cli"), features()
    differ = [name for name in program if program[name] != libraries.get(name)]
    for name in sorted(differ):
        print(f"{name}: the program needs {sorted(program[name])}, `cargo build` {sorted(libraries.get(name, []))}; ask for"
              " the same features in the workspace's Cargo.toml")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
