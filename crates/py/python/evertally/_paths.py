"""Paths of files and folders on this machine."""

from __future__ import annotations

import os
import re
import urllib.parse
import urllib.request

from ._errors import InvalidError

#: The scheme of a URL, such as `s3a` or `dbfs`; `pathlib.Path` drops one of the two slashes. A single letter is a
#: drive of Windows.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def local(path: str | os.PathLike[str], name: str, advice: str) -> str:
    """A path that the parameter `name` gives, also as a ``file:`` URL. Refuses other URLs, with the advice: opened as a
    path, ``s3a://bucket/ledger`` is a folder ``s3a:`` on the local disk."""
    text = os.fspath(path)
    found = SCHEME.match(text)
    if found is None:
        return text
    if found[1].lower() == "file":
        parts = urllib.parse.urlsplit(text)
        if parts.netloc in ("", "localhost"):
            return urllib.request.url2pathname(parts.path)
    raise InvalidError(f"{name} is the URL {text!r}, but it must be a path on this machine: {advice}")
