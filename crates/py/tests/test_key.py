"""Secret keys."""

import copy
import os
import pickle
import stat
import subprocess
from pathlib import Path

import pytest

import evertally as et


def test_keys_show_only_their_id() -> None:
    key = et.SecretKey.generate()
    assert len(key.id) == 32 and repr(key) == f"SecretKey({key.id})"
    assert key.expose_bytes().hex() not in repr(key) + str(key)
    assert key != et.SecretKey.generate() and key != key.id
    assert et.SecretKey.from_bytes(key.expose_bytes()) == key


def test_files_are_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "my.key"
    key = et.SecretKey.generate()
    key.save(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert et.SecretKey.load(str(path)) == key
    assert (tmp_path / "my.key.ledger").exists()
    with pytest.raises(et.InvalidError, match="a second one"):
        key.save(tmp_path / "other.key")
    with pytest.raises(et.InvalidError, match="already exists"):
        et.SecretKey.generate().save(path)
    path.chmod(0o644)
    with pytest.raises(et.InvalidError, match="chmod 600"):
        et.SecretKey.load(path)
    with pytest.raises(et.InvalidError, match="there is no key file"):
        et.SecretKey.load(tmp_path / "none")


def test_the_program_reads_our_keys_and_we_read_its(tmp_path: Path, program: str) -> None:
    ours, theirs = tmp_path / "ours.key", tmp_path / "theirs.key"
    key = et.SecretKey.generate()
    key.save(ours)
    message = subprocess.run([program, "key", "id", ours], check=True, capture_output=True, text=True)
    assert message.stdout.strip() == key.id
    subprocess.run([program, "key", "new", theirs], check=True, capture_output=True)
    message = subprocess.run([program, "key", "id", theirs], check=True, capture_output=True, text=True)
    assert message.stdout.strip() == et.SecretKey.load(theirs).id


@pytest.mark.parametrize("bad", [b"", b"short", bytes(32), bytes(33)])
def test_bytes_that_are_no_key_are_refused(bad: bytes) -> None:
    with pytest.raises(et.InvalidError):
        et.SecretKey.from_bytes(bad)


def test_keys_are_not_pickled_or_copied(key: et.SecretKey) -> None:
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            leak(key)


def test_test_keys_are_loud_and_repeatable() -> None:
    seed = et.TestSeed(7)
    assert seed == et.TestSeed(7) and hash(seed) == hash(et.TestSeed(7)) and seed.seed == 7
    key = et.SecretKey.insecure_from_test_seed(seed)
    assert key == et.SecretKey.insecure_from_test_seed(seed)
    assert key != et.SecretKey.insecure_from_test_seed(et.TestSeed(8))
    with pytest.raises(TypeError):
        et.SecretKey.insecure_from_test_seed(7)  # type: ignore[arg-type]
