"""Paths on this machine, and addresses that are none."""

from pathlib import Path

import evertally as et
import pytest
from evertally._paths import local


@pytest.mark.parametrize("path", ["ledger", "./a:b", "run:1", "2024-01-01T00:00/x", "C:/ledger", r"C:\ledger", "/a:/b"])
def test_paths_stay_as_they_are(path: str) -> None:
    assert local(path, "ledger", "") == path


@pytest.mark.parametrize("address", ["file:///mnt/a%20b", "file:/mnt/a%20b", "FILE://localhost/mnt/a%20b"])
def test_file_addresses_are_paths(address: str) -> None:
    assert local(address, "ledger", "") == "/mnt/a b"


@pytest.mark.parametrize("address", ["s3a://b/l", "hdfs:///l", "dbfs:/l", "gs://b", "abfss://c@a/l"])
def test_other_addresses_are_refused(address: str) -> None:
    for path in (address, Path(address)):
        with pytest.raises(et.InvalidError, match="^ledger is the address .*, but it must be a path .*: give a folder$"):
            local(path, "ledger", "give a folder")


def test_a_file_address_of_another_machine_is_refused() -> None:
    with pytest.raises(et.InvalidError, match="^ledger is the address"):
        local("file://host/l", "ledger", "")
