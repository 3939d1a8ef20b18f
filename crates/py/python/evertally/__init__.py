"""Differentially private continual release: running counts and sums of a sensitive event stream.

A :func:`plan` is public and is fixed before any data arrive: horizon, budget, privacy unit, mechanism and noise. A
:class:`Counter`, a :class:`LazyVector` or a :class:`CountSketch` combines a plan, a secret key and the data so far:
``add`` adds events to the open step, ``tick`` closes it, ``save`` and ``restore`` move the object between processes.
:class:`Stream` declares all of this for a table of events, a Spark DataFrame or a service, and :func:`release` does the
same with keywords. One guarantee covers the whole history of releases.

Each kind has its own plan: :func:`plan` for counters, :func:`plan_lazy`, :func:`plan_sketch`, and
:func:`plan_release` for tables. :mod:`evertally.training` plans and draws the noise of private training.

>>> import evertally as et
>>> plan = et.plan(365, epsilon=1.0)
>>> visits = et.Counter(plan, et.SecretKey.generate(), "visits")
>>> visits.add(120)
>>> visits.tick().step
1
"""

import sysconfig
from typing import TYPE_CHECKING

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("evertally is not built for free-threaded CPython: use the standard build, such as python3.14")

from . import budget, training
from ._declare import Stream
from ._errors import (
    EvertallyError,
    HorizonExhausted,
    InvalidError,
    RandomnessError,
    ServiceError,
    StateError,
    SumOverflowError,
    TableError,
)
from ._evertally import (
    ArrowTable,
    Budget,
    Candidate,
    Counter,
    CountSketch,
    Guarantee,
    LazyVector,
    Plan,
    Reading,
    Release,
    SecretKey,
    TestSeed,
    VectorNoise,
    __version__,
)
from ._functions import plan, plan_lazy, plan_release, plan_sketch, release
from ._history import interval
from ._parts import AssertedPerson, Columns, Event, Groups, Person, Steps, Values
from ._sums import release_steps, release_sums
from ._uses import allow_noise_reuse

if TYPE_CHECKING:
    from ._connect import Publication, Receipt, Service, ServiceStream, connect
else:

    def __getattr__(name):
        # The client of the service is imported when it is used: HTTP and TLS take a third of the time of the import.
        if name in {"Publication", "Receipt", "Service", "ServiceStream", "connect"}:
            from . import _connect

            globals()[name] = getattr(_connect, name)
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = [
    "ArrowTable",
    "AssertedPerson",
    "Budget",
    "Candidate",
    "Columns",
    "CountSketch",
    "Counter",
    "Event",
    "EvertallyError",
    "Groups",
    "Guarantee",
    "HorizonExhausted",
    "InvalidError",
    "LazyVector",
    "Person",
    "Plan",
    "Publication",
    "RandomnessError",
    "Reading",
    "Receipt",
    "Release",
    "SecretKey",
    "Service",
    "ServiceError",
    "ServiceStream",
    "StateError",
    "Steps",
    "Stream",
    "SumOverflowError",
    "TableError",
    "TestSeed",
    "Values",
    "VectorNoise",
    "__version__",
    "allow_noise_reuse",
    "budget",
    "connect",
    "interval",
    "plan",
    "plan_lazy",
    "plan_release",
    "plan_sketch",
    "release",
    "release_steps",
    "release_sums",
    "training",
]
