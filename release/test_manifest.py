"""Tests release/manifest in a small repository."""

import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_install import ROOT, TARGET, new_key, pack, sign, tree


@functools.cache
def repository():
    """A small repository with the scripts and recipes; a copy is made for each test."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="evertally-repository."))
    unittest.addModuleCleanup(shutil.rmtree, folder)
    (folder / "release").mkdir()
    for file in ("Cargo.toml", "Cargo.lock", "release/manifest", "release/install.sh"):
        shutil.copy(ROOT / file, folder / file)
    shutil.copytree(ROOT / "release/packages", folder / "release/packages")
    (folder / ".gitignore").write_text("/target\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "files"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


class Manifest(unittest.TestCase):
    """Tests of release/manifest in a small repository."""

    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="release test ")))
        self.tree = self.work / "the tree"
        shutil.copytree(repository(), self.tree, symlinks=True)
        self.dist = self.tree / "target/artifacts"
        self.dist.mkdir(parents=True)
        self.version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        self.archive = pack(self.dist, self.version)
        self.head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.tree, check=True, capture_output=True, text=True
        ).stdout.strip()

    def run_script(self, *arguments):
        """Exit status and output."""
        command = [sys.executable, self.tree / "release/manifest", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.work)
        return done.returncode, done.stdout + done.stderr

    def succeeds(self, *arguments):
        status, output = self.run_script(*arguments)
        self.assertEqual(status, 0, output)
        return output

    def refuses(self, words, *arguments):
        status, output = self.run_script(*arguments)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?m)^error: .+\n\Z")
        self.assertIn(words, output)

    def test_lists(self):
        """The lists are those of sha256sum and of the files, and the same again."""
        shutil.copy(self.archive, self.dist / f"evertally-{self.version}.tar.gz")
        names = "evertally-{}-cp311-abi3-manylinux_2_17_x86_64.whl", "evertally_{}-1_amd64.deb", "evertally.cdx.json"
        for name in names:
            (self.dist / name.format(self.version)).write_text("x")
        self.succeeds("--source")
        first = tree(self.dist)
        subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=self.dist, check=True)
        manifest = json.loads((self.dist / "MANIFEST.json").read_text())
        self.assertEqual((manifest["version"], manifest["commit"]), (self.version, self.head))
        self.assertRegex(manifest["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(manifest["rustc"], r"^rustc 1\.")
        entry = next(file for file in manifest["files"] if file["name"] == self.archive.name)
        self.assertEqual(entry, {
            "name": self.archive.name, "bytes": self.archive.stat().st_size,
            "sha256": hashlib.sha256(self.archive.read_bytes()).hexdigest(), "kind": "program", "target": TARGET,
        })
        kinds = {file["kind"] for file in manifest["files"]}
        self.assertEqual(kinds, {"program", "sdist", "wheel", "deb", "source", "installer", "bill of materials"})
        self.assertIn("not signed", self.succeeds("--verify"))
        source = self.dist / f"evertally-{self.version}-source.tar.gz"
        self.assertEqual(source.read_bytes()[4:8], bytes(4))
        self.succeeds("--source")
        self.assertEqual(tree(self.dist), first)

    def test_refused_files(self):
        self.refuses("is not a folder", self.work / "none")
        (self.dist / "notes.txt").write_text("x")
        self.refuses("notes.txt is not a file of a release: remove it")
        (self.dist / "notes.txt").unlink()
        other = pack(self.dist, "9.9.9")
        self.refuses(f"{other.name} has version 9.9.9, not {self.version}")
        other.unlink()
        wheel = self.dist / f"evertally-{self.version}-py3-none-any.whl"
        wheel.write_text("")
        self.refuses(f"{wheel.name} is empty")
        wheel.unlink()
        self.archive.write_bytes(self.archive.read_bytes()[:50])
        self.refuses(f"{self.archive.name} cannot be read")
        self.archive.unlink()
        self.refuses("has no archive or package")

    def test_tree(self):
        (self.tree / "new.txt").write_text("x")
        self.refuses("new.txt is changed or new")
        self.succeeds("--changed-tree")
        self.assertEqual(json.loads((self.dist / "MANIFEST.json").read_text())["commit"], f"{self.head}-changed")

    def test_compilers(self):
        facts = "rustc {} (59807616e 2026-04-14) " + self.head
        pack(self.dist, self.version, files={"evertally": facts.format("1.90.0")})
        self.succeeds()
        self.assertIn("rustc 1.90.0 (", (self.dist / "MANIFEST.json").read_text())
        other = pack(self.dist, self.version, "aarch64-other", {"evertally": facts.format("1.91.0")})
        self.refuses("build both with one version")
        facts = facts.format("1.90.0").replace(self.head, "0" * 40)
        pack(self.dist, self.version, "aarch64-other", {"evertally": facts})
        self.refuses(f"{other.name} was not built from commit")

    def test_signature(self):
        """A signed release verifies; its install.sh accepts it, and refuses the key of another signer."""
        new_key(self.work / "key")
        new_key(self.work / "other")
        output = self.succeeds("--sign", self.work / "key")
        self.assertIn("the signature is that of a signer", output)
        first = tree(self.dist)
        self.succeeds("--sign", self.work / "key")
        self.assertEqual(tree(self.dist), first)
        self.succeeds("--verify")
        install = ["sh", self.dist / "install.sh", "--from", self.dist]
        environment = os.environ | {"HOME": str(self.work), "XDG_DATA_HOME": str(self.work / "share")}
        done = subprocess.run(install, capture_output=True, text=True, check=True, env=environment)
        self.assertNotIn("not verified", done.stdout)
        signers = self.work / "signers"
        signers.write_text(f'evertally {(self.work / "other.pub").read_text()}')
        self.refuses("is not the signature of a signer", "--verify", "--signers", signers)
        signers.write_text(f'evertally {(self.work / "key.pub").read_text()}')
        self.succeeds("--verify", "--signers", signers)
        sign(self.dist / "SHA256SUMS", self.work / "other")
        self.refuses("is not the signature of a signer", "--verify")
        done = subprocess.run(install, capture_output=True, text=True, check=False, env=environment)
        self.assertIn("is not that of a signer", done.stderr)
        self.succeeds()
        self.assertFalse((self.dist / "SHA256SUMS.sig").exists())
        self.refuses("does not exist", "--sign", self.work / "none")

    def test_signers_of_the_repository(self):
        signer = new_key(self.work / "key")
        new_key(self.work / "other")
        script = self.tree / "release/install.sh"
        script.write_text(script.read_text().replace("signers='\n'", f"signers='\n{signer}'"))
        self.refuses("is not a signer in release/install.sh", "--changed-tree", "--sign", self.work / "other")
        self.succeeds("--changed-tree", "--sign", self.work / "key")
        self.succeeds("--verify")

    def test_verification(self):
        self.succeeds()
        good = {path.name: path.read_bytes() for path in self.dist.iterdir()}

        def change(name, content):
            for path in self.dist.iterdir():
                path.unlink()
            for other, bytes_ in (good | {name: content}).items():
                if bytes_ is not None:
                    (self.dist / other).write_bytes(bytes_)

        change(self.archive.name, good[self.archive.name] + b"x")
        self.refuses(f"{self.archive.name} has SHA-256", "--verify")
        change(self.archive.name, None)
        self.refuses(f"{self.archive.name} does not exist", "--verify")
        change("other.txt", b"x")
        self.refuses("does not list other.txt", "--verify")
        change("SHA256SUMS", None)
        self.refuses("SHA256SUMS does not exist", "--verify")
        change("SHA256SUMS", good["SHA256SUMS"] + b"x\n")
        self.refuses("SHA256SUMS:4", "--verify")
        for before, after, words in (
            (b'"kind": "program"', b'"kind": "wheel"', "other facts"),
            (b'"name": "install.sh"', b'"name": "install"', "is not a file of a release"),
            (b'"files"', b'"list"', "is not a manifest"),
        ):
            content = good["MANIFEST.json"].replace(before, after)
            self.assertNotEqual(content, good["MANIFEST.json"])
            change("MANIFEST.json", content)
            digests = [hashlib.sha256(one).hexdigest().encode() for one in (good["MANIFEST.json"], content)]
            (self.dist / "SHA256SUMS").write_bytes(good["SHA256SUMS"].replace(*digests))
            self.refuses(words, "--verify")
        change("SHA256SUMS", good["SHA256SUMS"])
        self.succeeds("--verify")

    def test_recipes(self):
        self.refuses("has no source archive", "--fill-recipes")
        self.succeeds("--source", "--fill-recipes")
        digest = hashlib.sha256((self.dist / f"evertally-{self.version}-source.tar.gz").read_bytes()).hexdigest()
        recipes = self.dist / "recipes"
        paths = [path for path in recipes.rglob("*") if path.is_file()]
        texts = {path.relative_to(recipes).as_posix(): path.read_text() for path in paths}
        for name, text in texts.items():
            self.assertIsNone(re.search("@[A-Z0-9_]+@", text), name)
        for name in ("homebrew/evertally.rb", "conda/recipe.yaml", "arch/PKGBUILD"):
            self.assertIn(digest, texts[name])
            self.assertIn(self.version, texts[name])
        self.assertIn("sha256-", texts["nix/package.nix"])
        self.assertIn("[[package]]", texts["nix/Cargo.lock"])
        for command, names in {
            ("ruby", "-c"): ["homebrew/evertally.rb"], ("bash", "-n"): ["arch/PKGBUILD"],
            ("nix-instantiate", "--parse"): ["nix/package.nix"],
        }.items():
            if shutil.which(command[0]):
                for name in names:
                    subprocess.run([*command, recipes / name], check=True, capture_output=True)
        (self.tree / "release/packages/conda/recipe.yaml").write_text("@OTHER@")
        self.refuses("unknown placeholder @OTHER@", "--changed-tree", "--source", "--fill-recipes")
