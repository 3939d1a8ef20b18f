"""Differentially private continual release: running counts and sums of a sensitive event stream.

A :func:`plan` is public and is fixed before any data arrive: horizon, budget, privacy unit, mechanism and noise. A
:class:`Counter`, a :class:`LazyVector` or a :class:`CountSketch` combines a plan, a secret key and the data so far:
``add`` adds events to the open step, ``tick`` closes it, ``save`` and ``restore`` move the object between processes.
:class:`Stream` declares all of this for a table of events, a Spark DataFrame or a service, and :func:`release` does the
same with keywords. One guarantee covers the whole history of releases.

Each kind has its own plan: :func:`plan` for counters, :func:`plan_lazy`, :func:`plan_sketch`, :func:`plan_vector` for
the noise of vectors, and :func:`plan_release` for tables.

>>> import evertally as et
>>> plan = et.plan(365, epsilon=1.0)
>>> visits = et.Counter(plan, et.SecretKey.generate(), "visits")
>>> visits.add(120)
>>> visits.tick().step
1
"""

from . import budget, canaries
from ._connect import Publication, Receipt, Service, ServiceStream, connect
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
    Batches,
    Budget,
    Candidate,
    Counter,
    CountSketch,
    Guarantee,
    LazyVector,
    Plan,
    Reading,
    Release,
    RowNoise,
    SecretKey,
    TestSeed,
    Training,
    VectorCandidate,
    VectorGuarantee,
    VectorNoise,
    VectorPlan,
    Way,
    __version__,
)
from ._functions import plan, plan_lazy, plan_release, plan_sketch, plan_training, plan_vector, release
from ._history import interval
from ._order import FixedBatches
from ._parts import Columns, Event, Groups, Person, Steps, Values
from ._sums import release_steps, release_sums
from ._uses import allow_noise_reuse

__all__ = [
    "ArrowTable",
    "Batches",
    "Budget",
    "Candidate",
    "Columns",
    "CountSketch",
    "Counter",
    "Event",
    "EvertallyError",
    "FixedBatches",
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
    "RowNoise",
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
    "Training",
    "Values",
    "VectorCandidate",
    "VectorGuarantee",
    "VectorNoise",
    "VectorPlan",
    "Way",
    "__version__",
    "allow_noise_reuse",
    "budget",
    "canaries",
    "connect",
    "interval",
    "plan",
    "plan_lazy",
    "plan_release",
    "plan_sketch",
    "plan_training",
    "plan_vector",
    "release",
    "release_steps",
    "release_sums",
]
