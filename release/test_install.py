"""Tests release/install.sh, without the network: archives contain a shell script as the program, and are served from
folders and by Python's HTTP server. Every test runs with each of dash, BusyBox and bash that is installed.
"""

import functools
import hashlib
import http.server
import io
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

ROOT = pathlib.Path(os.environ.get("EVERTALLY_TREE", pathlib.Path(__file__).resolve().parent.parent))
SHELLS = {"dash": [], "busybox": ["sh"], "bash": ["--posix"]}
ARCHITECTURE = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
TARGET = ARCHITECTURE + ("-apple-darwin" if sys.platform == "darwin" else "-unknown-linux-gnu")
# What the installer may call.
TOOLS = """awk basename cat chmod cmp cp curl cut dirname grep gzip head ln mkdir mktemp mv rm rmdir sed sha256sum sort
    ssh-keygen tail tar tr uname wc wget""".split()
# A program that counts its calls, and at one of them does something else.
COUNTING = """#!/bin/sh
n=$(($(cat "{counter}") + 1))
echo $n >"{counter}"
[ $n -ne {call} ] || {{ {action}; }}
exec {real} "$@"
"""


def program(version="0.1.0", text=""):
    """A stand-in for the program."""
    return f"#!/bin/sh\n{text}\necho evertally {version}\n"


# The files of an archive with few of them.
SMALL = {"evertally": program(), "completions/evertally.bash": "two\n", "man/man1/evertally.1": "two\n"}


def pack(folder, version="0.1.0", target=TARGET, files=None):
    """Writes an archive of these files, or of one of each kind; returns its path."""
    name = f"evertally-{version}-{target}"
    if files is None:
        files = {
            "evertally": program(version),
            "LICENSE-MIT": "licence\n",
            "completions/evertally.bash": f"# {version}\n",
            "man/man1/evertally.1": f".TH evertally {version}\n",
            "man/man1/evertally-release.1": ".TH release\n",
        }
    path = folder / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inner, text in files.items():
            entry = tarfile.TarInfo(f"{name}/{inner}")
            entry.size, entry.mode = len(text.encode()), 0o755 if inner == "evertally" else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def list_sums(folder):
    """Writes SHA256SUMS of the archives."""
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.glob("*.gz")))
    (folder / "SHA256SUMS").write_text("".join(lines))


def new_key(path):
    """A key for signatures; returns the line of an allowed signer."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "name", "-f", path], check=True)
    return f'evertally namespaces="evertally" {" ".join(path.with_suffix(".pub").read_text().split()[:2])}\n'


def sign(path, key, namespace="evertally"):
    """Signs a file."""
    path.with_name(f"{path.name}.sig").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, path], check=True)


def tree(folder):
    """Every path in a folder, with mode and bytes."""
    return {
        str(path.relative_to(folder)): (oct(path.lstat().st_mode), path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_):
        pass


class Installer:
    """Tests of install.sh by one shell, in a home that has files already."""

    shell: list

    def setUp(self):
        self.work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="release test ")))
        self.home, self.dist = self.work / "a home", self.work / "the dist"
        for folder in (self.home / ".local/share/man/man1", self.dist, self.work / "tmp"):
            folder.mkdir(parents=True)
        (self.home / ".local/share/man/man1/other.1").write_text("other\n")
        self.script = self.work / "install.sh"
        shutil.copy(ROOT / "release/install.sh", self.script)
        pack(self.dist)
        list_sums(self.dist)
        self.before = tree(self.home)
        self.program = self.home / ".local/bin/evertally"
        self.share = self.home / ".local/share"
        self.path = os.environ["PATH"]

    def tearDown(self):
        self.assertEqual(list((self.work / "tmp").iterdir()), [], "temporary files remain")

    def run_script(self, *arguments, place=None, stdin=None, **variables):
        """Exit status and output; the place is that of --from."""
        place = [] if place == "" else ["--from", str(place or self.dist)]
        environment = {"HOME": str(self.home), "PATH": self.path, "TMPDIR": str(self.work / "tmp"), **variables}
        command = [*self.shell, "-s", "--"] if stdin else [*self.shell, str(self.script)]
        done = subprocess.run(
            [*command, *place, *map(str, arguments)], env=environment, input=stdin, text=True, check=False, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.work,
        )
        return done.returncode, done.stdout

    def installs(self, *arguments, **options):
        status, output = self.run_script(*arguments, **options)
        self.assertEqual(status, 0, output)
        return output

    def refuses(self, words, *arguments, **options):
        """The script fails by a sentence with these words, and changes nothing."""
        before = tree(self.home)
        status, output = self.run_script(*arguments, **options)
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)
        self.assertRegex(output, r"(?m)^error: .+")
        self.assertEqual(tree(self.home), before)
        return output

    def uninstalls(self, before=None):
        self.installs("--uninstall", place="")
        self.assertEqual(tree(self.home), self.before if before is None else before)

    def serve(self):
        """The address of an HTTP server of the folder."""
        handler = functools.partial(Quiet, directory=str(self.dist))
        server = self.enterContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"

    def tools(self, without=(), busybox=False):
        """A PATH with only the listed tools; those of BusyBox if asked."""
        folder = self.work / "tools"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in TOOLS:
            real = shutil.which("busybox") if busybox and name not in ("ssh-keygen", "curl") else shutil.which(name)
            if real and name not in without:
                (folder / name).symlink_to(real)
        (folder / "sh").symlink_to(shutil.which("sh"))
        return str(folder)

    def stand_in(self, tool, action, call):
        """A PATH on which the tool does something else at one of its calls."""
        folder, counter = self.work / "stand-in", self.work / "counter"
        folder.mkdir(exist_ok=True)
        counter.write_text("0\n")
        (folder / tool).write_text(
            COUNTING.format(counter=counter, call=call, action=action, real=shutil.which(tool))
        )
        (folder / tool).chmod(0o755)
        return f"{folder}:{self.path}"

    def test_folder(self):
        output = self.installs()
        shown = subprocess.run([self.program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(shown, "evertally 0.1.0\n")
        self.assertTrue((self.share / "bash-completion/completions/evertally").is_file())
        self.assertTrue((self.share / "man/man1/evertally-release.1").is_file())
        self.assertTrue((self.share / "doc/evertally/LICENSE-MIT").is_file())
        self.assertIn(f"Installed evertally 0.1.0 for {TARGET} as {self.program}.", output)
        self.assertIn("is not in PATH", output)
        self.assertIn("names no signer", output)
        self.assertNotIn(b"\nfile  ", (self.share / "evertally/installed").read_bytes())
        self.uninstalls()

    def test_path(self):
        output = self.installs(PATH=f"{self.program.parent}:{self.path}")
        self.assertNotIn("PATH", output)
        other = self.work / "other"
        other.mkdir()
        shutil.copy(self.program, other)
        output = self.installs(PATH=f"{other}:{self.program.parent}:{self.path}")
        self.assertIn(f"another program, {other}/evertally", output)
        self.assertIn("fpath", self.installs(SHELL="/bin/zsh"))

    def test_http(self):
        for without in ("wget", "curl"):
            with self.subTest(without=without):
                self.installs(place=self.serve(), PATH=self.tools({without}))
                self.assertTrue(self.program.is_file())
                self.uninstalls()
        self.refuses("there is no curl or wget", place=self.serve(), PATH=self.tools({"curl", "wget"}))
        self.refuses("cannot be downloaded", "--version", "9.9.9", place=self.serve() + "/none")
        self.refuses("neither encrypted nor signed", place=self.serve().replace("127.0.0.1", "0.0.0.0"))

    def test_default_address(self):
        """Without --from, files come from the releases of the repository, over https alone."""
        folder = self.work / "stand-in"
        folder.mkdir()
        (folder / "curl").write_text(
            "#!/bin/sh\n"
            'while [ $# -gt 1 ]; do case $1 in --proto) proto=$2 ;; --output) output=$2 ;; esac; shift; done\n'
            f'echo "$proto $1" >>"{self.work}/addresses"\n'
            f'cp "{self.dist}/${{1##*/}}" "$output"\n'
        )
        (folder / "curl").chmod(0o755)
        for arguments, place in ((), "latest/download"), (("--version", "0.1.0"), "download/v0.1.0"):
            self.installs(*arguments, place="", PATH=f"{folder}:{self.path}")
            address = f"=https https://github.com/evertally/evertally/releases/{place}"
            names = ["SHA256SUMS", f"evertally-0.1.0-{TARGET}.tar.gz"]
            self.assertEqual(
                (self.work / "addresses").read_text().splitlines(), [f"{address}/{name}" for name in names]
            )
            (self.work / "addresses").unlink()
        self.uninstalls()

    @unittest.skipUnless(shutil.which("busybox"), "BusyBox is not installed")
    def test_tools_of_busybox(self):
        self.signed()
        path = self.tools({"curl"}, busybox=True)
        self.installs(place=self.serve(), PATH=path)
        self.installs(PATH=path)
        self.installs("--uninstall", place="", PATH=path)
        self.assertEqual(tree(self.home), self.before)

    def test_standard_input(self):
        self.installs(stdin=self.script.read_text())
        self.uninstalls()

    def test_damaged_archive(self):
        archive = next(self.dist.glob("*.gz"))
        content = bytearray(archive.read_bytes())
        content[len(content) // 2] ^= 1
        archive.write_bytes(content)
        self.refuses("is damaged or was replaced")
        self.refuses("is damaged or was replaced", place=self.serve())

    def test_checksum_lines(self):
        sums = self.dist / "SHA256SUMS"
        line = sums.read_text()
        sums.write_text("")
        self.refuses("has no line")
        sums.write_text(line.replace(TARGET, "another-target"))
        self.refuses("has no line", "--version", "0.1.0")
        sums.write_text(line[1:])
        self.refuses("has no line")
        sums.write_text(line + line)
        self.refuses("has 2 lines")
        self.refuses("has 2 lines", "--version", "0.1.0")
        sums.unlink()
        self.refuses("does not exist")

    def signed(self):
        """Signs the list, and names the signer in the script."""
        signer = new_key(self.work / "key")
        self.script.write_text(self.script.read_text().replace("signers='\n'", f"signers='\n{signer}'"))
        sign(self.dist / "SHA256SUMS", self.work / "key")

    def test_signature(self):
        self.signed()
        self.assertNotIn("signature", self.installs())
        self.uninstalls()
        self.installs(place=self.serve().replace("127.0.0.1", "0.0.0.0"))
        self.uninstalls()
        self.refuses("there is no ssh-keygen", PATH=self.tools({"ssh-keygen"}))
        self.assertIn("not verified", self.installs("--without-signature", PATH=self.tools({"ssh-keygen"})))
        self.uninstalls()
        self.refuses("encrypted", "--without-signature", place=self.serve().replace("127.0.0.1", "0.0.0.0"))
        with (self.dist / "SHA256SUMS").open("a") as sums:
            sums.write("0" * 64 + "  other\n")
        self.refuses("is not that of a signer")
        new_key(self.work / "other")
        sign(self.dist / "SHA256SUMS", self.work / "other")
        self.refuses("is not that of a signer")
        sign(self.dist / "SHA256SUMS", self.work / "key", "file")
        self.refuses("is not that of a signer")
        (self.dist / "SHA256SUMS.sig").unlink()
        self.refuses("SHA256SUMS.sig does not exist")

    def test_upgrade(self):
        self.installs()
        shutil.rmtree(self.dist)
        self.dist.mkdir()
        pack(self.dist, "0.2.0", files={"evertally": program("0.2.0"), "man/man1/evertally-new.1": "new\n"})
        list_sums(self.dist)
        self.installs()
        self.assertIn("0.2.0", self.program.read_text())
        self.assertEqual(
            sorted(path.name for path in (self.share / "man/man1").iterdir()), ["evertally-new.1", "other.1"]
        )
        self.installs()
        self.uninstalls()

    def test_versions(self):
        pack(self.dist, "0.2.0")
        list_sums(self.dist)
        self.refuses("has 2 lines")
        self.refuses("has no line", "--version", "0.3.0")
        self.refuses("is not a version", "--version", "0.1/0")
        self.installs("--version", "v0.2.0")
        self.installs("--version", "0.1.0")
        self.assertIn("0.1.0", self.program.read_text())

    def test_wrong_program(self):
        self.installs()
        pack(self.dist, files={"evertally": program(text="exit 1")})
        list_sums(self.dist)
        self.refuses("does not run on this machine")
        pack(self.dist, files={"evertally": program("0.0.9")})
        list_sums(self.dist)
        self.refuses("another program")
        pack(self.dist, files={"README.md": "x"})
        list_sums(self.dist)
        self.refuses("has no program")
        self.uninstalls()

    def test_foreign_files(self):
        self.program.parent.mkdir()
        self.program.write_text("#!/bin/sh\n")
        self.refuses("is not a file that this script installed")
        self.program.unlink()
        self.program.symlink_to("/nowhere")
        self.refuses("is not a file that this script installed")
        self.program.unlink()
        page = self.share / "man/man1/evertally.1"
        page.write_text("own\n")
        self.refuses("is not a file that this script installed")
        self.installs("--no-extras")
        self.assertEqual({path.name for path in self.share.iterdir()}, {"evertally", "man"})
        self.installs("--uninstall", place="")
        self.assertEqual(page.read_text(), "own\n")

    def test_changed_file(self):
        self.installs()
        page = self.share / "man/man1/evertally.1"
        page.write_text("changed\n")
        output = self.installs("--uninstall", place="")
        self.assertIn(f"{page} stays", output)
        self.assertEqual(page.read_text(), "changed\n")
        page.unlink()
        self.assertEqual(tree(self.home), self.before)
        self.refuses("is not installed by this script", "--uninstall", place="")

    def test_places(self):
        to, share = self.work / "other place/bin", self.work / "the share"
        self.installs("--to", to, XDG_DATA_HOME=str(share))
        self.assertTrue((to / "evertally").is_file())
        self.assertEqual(tree(self.home), self.before)
        self.refuses("give its folder by --to", XDG_DATA_HOME=str(share))
        self.installs("--to", f"{to}/", XDG_DATA_HOME=str(share))
        self.installs("--uninstall", place="", XDG_DATA_HOME=str(share))
        self.assertFalse(to.parent.exists() or share.exists())
        self.installs("--to", "relative place")
        self.assertTrue((self.work / "relative place/evertally").is_file())
        self.uninstalls()

    def test_folder_that_cannot_be_created(self):
        (self.home / "file").write_text("")
        self.refuses("cannot be created", "--to", self.home / "file/bin")

    def restore(self, saved):
        """Puts the home back as it was saved."""
        shutil.rmtree(self.home)
        shutil.copytree(saved, self.home)

    def test_failed_rename(self):
        """Whichever rename fails or is interrupted, the old version stays complete, or the new one is."""
        pack(self.dist, "0.2.0", files=SMALL | {"evertally": program("0.2.0")})
        list_sums(self.dist)
        for fresh in (True, False):
            saved = self.work / f"saved {fresh}"
            shutil.copytree(self.home, saved)
            before = tree(self.home)
            for action in ("exit 1", "kill -TERM $PPID; sleep 0.1")[fresh:]:
                for call in range(1, 20):
                    status, output = self.run_script("--version", "0.2.0", PATH=self.stand_in("mv", action, call))
                    if status == 0:
                        self.assertLess(int((self.work / "counter").read_text()), call, f"unnoticed: {output}")
                        break
                    if "Nothing was changed." in output:
                        self.assertEqual(tree(self.home), before, f"{action}, call {call}: {output}")
                    else:
                        self.assertIn("0.2.0", self.program.read_text())
                        self.assertEqual((self.share / "man/man1/evertally.1").read_text(), "two\n")
                        self.assertFalse([name for name in tree(self.home) if ".evertally-" in name])
                    self.restore(saved)
                self.assertGreater(call, 4)
                self.restore(saved)
            self.installs("--version", "0.1.0")

    def test_killed(self):
        """After `kill -9` at any rename, a second run installs, and an uninstallation removes everything."""
        pack(self.dist, files=SMALL)
        list_sums(self.dist)
        for again in (True, False):
            for call in range(1, 20):
                status, _ = self.run_script(PATH=self.stand_in("mv", "kill -KILL $PPID; exit 1", call))
                shutil.rmtree(self.work / "tmp")
                (self.work / "tmp").mkdir()
                if status == 0:
                    self.assertGreater(call, 4)
                    self.uninstalls()
                    break
                if again or not (self.share / "evertally/installed").exists():
                    self.installs()
                self.uninstalls()

    def test_words(self):
        self.assertIn("Usage: install.sh", self.installs("--help", place=""))
        self.refuses("unknown option --frob", "--frob")
        self.refuses("--to needs a value", "--to")
        self.refuses("HOME is not set", HOME="")
        folder = self.work / "system"
        folder.mkdir()
        (folder / "uname").write_text("#!/bin/sh\necho Plan9\n")
        (folder / "uname").chmod(0o755)
        self.refuses("there is no program for Plan9", PATH=f"{folder}:{self.path}")


for name, arguments in SHELLS.items():
    if shutil.which(name):
        command = {"shell": [shutil.which(name), *arguments]}
        globals()[f"Installer_{name}"] = type(f"Installer_{name}", (Installer, unittest.TestCase), command)
