"""Checks the locked dependencies against `deny.toml` where `cargo deny` is not installed: licences, sources, bans and
versions of the same crate. Advisories and withdrawn versions are only checked by `cargo deny`.

    python3 checks/dependencies.py
"""

import collections
import json
import re
import subprocess
import sys
import tomllib

from budget import ROOT

TOKEN = re.compile(r"[()]|[^\s()/]+|/")
CRATES_IO = re.compile(r"registry\+.*/crates\.io-index")


def allowed_by(expression, licences):
    """Whether an SPDX expression can be satisfied by these licences. An old `/` means OR."""
    tokens = TOKEN.findall(expression)

    def either():
        holds = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            holds = both() or holds
        return holds

    def both():
        holds = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            holds = one() and holds
        return holds

    def one():
        name = tokens.pop(0)
        if name == "(":
            holds = either()
            tokens.pop(0)
            return holds
        if tokens and tokens[0] == "WITH":
            name = f"{name} WITH {tokens[1]}"
            del tokens[:2]
        return name in licences

    return either()


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--all-features"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    banned = {rule["crate"]: rule["reason"] for rule in rules["bans"]["deny"]}
    skipped = {rule["crate"] for rule in rules["bans"]["skip"]}
    versions = collections.defaultdict(list)
    wrong = []
    for package in packages:
        name = package["name"]
        versions[name].append(package["version"])
        if package["source"] is None:
            continue  # of this workspace
        if not CRATES_IO.fullmatch(package["source"]):
            wrong.append(f"{name} comes from {package['source']}")
        if not allowed_by(package["license"] or "none", rules["licenses"]["allow"]):
            wrong.append(f"{name} has the licence {package['license']}")
        if name in banned:
            wrong.append(f"{name} is banned: {banned[name]}")
    twice = {name for name, several in versions.items() if len(several) > 1}
    wrong += [f"{name} has several versions: {', '.join(versions[name])}" for name in sorted(twice - skipped)]
    wrong += [f"{name} has one version: remove it from `skip` in deny.toml" for name in sorted(skipped - twice)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
