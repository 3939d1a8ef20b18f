"""Plants faults in release/install.sh and release/manifest, and fails unless the tests find every one."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Each fault is a text of the script and its replacement; some test must fail.
FAULTS = {
    "install.sh": {
        "checksum is not compared": ('[ "$stated" = "$found" ] ||', ": ||"),
        "signature is not verified": ("ssh-keygen -Y verify", ": ssh-keygen -Y verify"),
        "signature of any namespace": ('-n "$signer" -s', '-n file -s'),
        "missing signature is accepted": ('fetch SHA256SUMS.sig "$work/SHA256SUMS.sig"', "return 0"),
        "unsigned over http": ('http://*) fail "$from is neither', 'http://*) : "$from is neither'),
        "duplicate line is accepted": ("    1) ;;", "    1 | 2) ;;"),
        "program is not tried": ('[ "$shown" = "evertally $version" ] ||', ": ||"),
        "old files are not restored": ('mv -f "$old" "$file" || return', ":"),
        "new files are not removed": ('            rm -f "$file" || return', "            :"),
        "receipt is not restored": ('write_receipt "$work/receipt"', ":"),
        "receipt is written too late": ('|| ! write_receipt "$work/files" "$work/old"; then', "; then"),
        "waiting files remain": ('rm -f "$(waiting "$file" old)" "$(waiting "$file" new)"', ":"),
        "remains of ended runs stay": ('kill -0 "${remain##*.}" 2>/dev/null || rm -f "$remain"', ":"),
        "signals are ignored": ("trap 'exit 143' TERM", "trap '' TERM"),
        "foreign files are replaced": ('&& ! is_ours "$file"; then', "&& false; then"),
        "files of the old version stay": ('is_ours "$file"; then rm -f "$file"; fi', 'is_ours "$file"; then :; fi'),
        "uninstall removes changed files": ('        if is_ours "$file"; then', "        if true; then"),
        "uninstall leaves folders": ('remove_folders "$work/removed"', ":"),
        "uninstall leaves the receipt": ('    rm -f "$receipt"\n    remove_folders', "    remove_folders"),
        "path with spaces": ('cp "$from/$1" "$2"', "cp $from/$1 $2"),
        "no word about PATH": ('report "$to is not in PATH', ': "$to is not in PATH'),
        "any version": ('number=$(archives | grep -cFx -e "$archive" || true)', "number=1"),
        "second folder": ('[ "$old" = "$to/evertally" ] ||', ": ||"),
        "extras always": ("--no-extras) extras=no", "--no-extras) extras=yes"),
    },
    "manifest": {
        "checksums are not compared": ("!= value:", "is None:"),
        "unlisted files are accepted": ("sorted(names - set(sums))", "()"),
        "signature is not verified": ('run(*command, "-s"', '(lambda *_, **__: 0)(*command, "-s"'),
        "no signature without --verify": ("        sign(folder, options.sign)\n", "        pass\n"),
        "an old signature stays": ("(folder / SIGNATURE).unlink(missing_ok=True)", "pass"),
        "any version": ('groups.get("version", expected) != expected', "False"),
        "changed trees are accepted": ("if changed and not allow_changes:", "if False:"),
        "compilers are not compared": ("if len(found) > 1:", "if False:"),
        "commit is not compared": ("hash_of_commit.encode() not in content", "False"),
        "time in the source archive": ("gzip.compress(tar, mtime=0)", "gzip.compress(tar)"),
        "signers are not filled": ("if not hit[1].strip():", "if False:"),
        "other signers are accepted": ("elif public not in hit[1]:", "elif False:"),
        "placeholders stay": ("PLACEHOLDER.sub(lambda hit: values[hit[0]], text)", "text"),
        "facts are not compared": ("if file != listed:", "if False:"),
        "empty files are accepted": ("if size == 0:", "if False:"),
    },
}
# What the tests need of the tree.
FILES = ["Cargo.toml", "Cargo.lock", "release/manifest", "release/install.sh"]


def is_found(script, before, after):
    """The name of a test that fails with this fault, or None."""
    text = (ROOT / "release" / script).read_text()
    if text.count(before) != 1:
        sys.exit(f"release/{script} has `{before}` {text.count(before)} times: mend the list in release/faults.py")
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        shutil.copytree(ROOT / "release/packages", copy / "release/packages")
        for name in FILES:
            shutil.copy(ROOT / name, copy / name)
        (copy / "release" / script).write_text(text.replace(before, after))
        tests = "test_manifest" if script == "manifest" else "test_install.Installer_dash"
        done = subprocess.run(
            [sys.executable, "-m", "unittest", "--failfast", "--buffer", tests], cwd=ROOT / "release", check=False,
            capture_output=True, text=True, env=os.environ | {"EVERTALLY_TREE": folder},
        )
    found = re.search(r"^(?:FAIL|ERROR): (\w+)", done.stderr, re.MULTILINE)
    return found and found[1]


def main(words):
    """Plants all faults, or those whose names contain a word; returns the exit status."""
    missed = 0
    for script, faults in FAULTS.items():
        for name, (before, after) in faults.items():
            if words and not any(word in name for word in words):
                continue
            test = is_found(script, before, after)
            print(f"found   {script}: {name} ({test})" if test else f"MISSED  {script}: {name}", flush=True)
            missed += test is None
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
