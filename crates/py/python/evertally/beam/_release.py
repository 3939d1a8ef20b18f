"""One release of a bounded PCollection."""

from __future__ import annotations

import inspect
import json
import os
from typing import Any

import apache_beam
import pyarrow
from apache_beam.io.filesystems import FileSystems

from .. import _functions, _keywords
from .._cluster import publishing, tasks
from .._cluster.handover import KeyFile, hand_over
from .._errors import InvalidError
from .._evertally import SecretKey, _ClusterWork
from . import _steps

#: Maximum number of shards; more are never useful.
MOST_SHARDS = 1 << 16
#: Where workers on this machine get the key.
HERE = "127.0.0.1"


class Release(apache_beam.PTransform):  # type: ignore[misc, unused-ignore]
    """Counts a bounded PCollection of events, to release its private running counts or sums with the keywords of
    :func:`evertally.release` and the values that it returns for the same events.

    Elements are rows (``dict``, ``NamedTuple``, ``beam.Row``) or Arrow tables, as of ``ReadFromParquetBatched``; Beam's
    own timestamps and windows are ignored. The pipeline bounds persons, counts, and writes the **exact** sums of steps
    and groups to one file: protect it like the events, and remove it in the end. It publishes nothing, so bundles may
    be retried.

    After the pipeline has succeeded, :meth:`publish` records the sums in the key's ledger, and returns their release.
    It may be called again, also after another run of the pipeline: the same sums give the same bytes, and other sums
    are refused.

    If a person has more events than the bounds allow, the earliest are kept; a keyed hash decides between several at
    the same instant. So the elements may be in any order, and no bundling or retry changes the release.

    ``sums``: The file of exact sums, in any file system of Beam.
    ``shards``: Number of shards of persons. It does not change any value.
    ``worker_key``: Path of the key file on every worker, such as a secret that the cluster mounts. Without it, this
        process hands the key over, sealed, to workers on the same machine, as those of the DirectRunner.

    Raises :class:`InvalidError` for invalid parameters; :meth:`publish` raises :class:`TableError` for a bad row.
    """

    def __init__(
        self,
        sums: str | os.PathLike[str],
        *,
        shards: int = 256,
        worker_key: str | os.PathLike[str] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__()
        if not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
            raise InvalidError(f"shards must be a number from 1 to {MOST_SHARDS}, not {shards!r}")
        given = publishing.arguments(None, keywords, "beam.Release")
        key, self._budget_file = given.pop("key"), given.pop("budget_file")
        self._secret = key if isinstance(key, SecretKey) else SecretKey.load(key)
        self._work = _ClusterWork.begin(_keywords.to_json(given), self._secret, self._budget_file)
        self._facts = json.loads(self._work.facts())
        self._worker_key = worker_key
        self.sums, self.shards = os.fspath(sums), shards

    def expand(self, events: Any) -> Any:
        """The steps of the pipeline. The result has one element, the path of the written file."""
        if not events.is_bounded:
            raise InvalidError(
                "this PCollection is unbounded, so it never ends; give a bounded one, or let a service count its "
                "events (evertally serve)"
            )
        way = hand_over(self._secret, HERE, HERE, 0) if self._worker_key is None else KeyFile(str(self._worker_key))
        shipped = tasks.Shipped(self._work.shipped(), way)
        read = _steps.Read(shipped, publishing.columns(self._facts), self._facts["time"], self.shards)
        counted = (
            events
            | "Ignore windows" >> apache_beam.WindowInto(apache_beam.window.GlobalWindows())
            | "Read events" >> apache_beam.ParDo(read)
        )
        if self._facts["persons"]:
            counted = (
                counted
                | "Gather persons" >> apache_beam.GroupByKey()
                | "Bound persons" >> apache_beam.ParDo(_steps.Bound(shipped))
            )
        return (
            counted
            | "Add up" >> apache_beam.CombineGlobally(_steps.AddUp())
            | "Write sums" >> apache_beam.ParDo(_steps.Write(self.sums, self._work.identity))
        )

    def publish(self) -> pyarrow.Table:
        """Records the sums that the pipeline has written, and returns their release as an Arrow table with the columns
        of :func:`evertally.release`."""
        matched = FileSystems.match([self.sums])[0].metadata_list
        if not matched:
            raise InvalidError(f"there is no file {self.sums}: run the pipeline first, until it has finished")
        with FileSystems.open(self.sums) as file:
            exact, time, identity = _steps.exact_sums(file.read())
        if identity != self._work.identity:
            raise InvalidError(
                f"the sums in {self.sums} belong to a release with another name, key or plan; run the pipeline of this "
                "one, or give the path of its file"
            )
        return publishing.publish(exact, self._work, self._secret, self._facts, time, self._budget_file)


Release.__signature__ = inspect.Signature(
    [
        inspect.Parameter("sums", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *[one for one in inspect.signature(_functions.release).parameters.values() if one.name != "table"],
        *[inspect.signature(Release.__init__).parameters[name] for name in ("shards", "worker_key")],
    ]
)
