"""Paths on this machine, and URLs."""

from pathlib import Path

import evertally as et
import pytest
from evertally._paths import local


@pytest.mark.parametrize("path", ["ledger", "./a:b", "run:1", "2024-01-01T00:00/x", "C:/ledger", r"C:\ledger", "/a:/b"])
def test_paths_stay_as_they_are(path: str) -> None:
    assert local(path, "ledger", "") == path


@pytest.mark.parametrize("url", ["file:///mnt/a%20b", "file:/mnt/a%20b", "FILE://localhost/mnt/a%20b"])
def test_file_urls_are_paths(url: str) -> None:
    assert local(url, "ledger", "") == "/mnt/a b"


@pytest.mark.parametrize("url", ["s3a://b/l", "hdfs:///l", "dbfs:/l", "gs://b", "abfss://c@a/l"])
def test_other_urls_are_refused(url: str) -> None:
    for path in (url, Path(url)):
        with pytest.raises(et.InvalidError, match="^ledger is the URL .*, but it must be a path .*: give a$"):
            local(path, "ledger", "give a")


def test_a_file_url_of_another_machine_is_refused() -> None:
    with pytest.raises(et.InvalidError, match="^ledger is the URL"):
        local("file://host/l", "ledger", "")
