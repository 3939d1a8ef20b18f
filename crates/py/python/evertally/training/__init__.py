"""Private training: plans, noise and batches for optimizers that use every example with a guarantee.

:func:`plan_vector` plans noise for the sums of clipped gradients, and :func:`plan_training` compares the options.
:class:`VectorNoise` adds that noise, step by step, and :class:`RowNoise` adds it to the rows of large embedding tables.
:class:`Batches` samples the examples of each step, and :class:`FixedBatches` takes them in a fixed order. With
:class:`Users` the privacy unit is a user with many examples.

- :mod:`evertally.training.moments`: adaptive clipping and second moments, in the same release as the gradients.
- :mod:`evertally.training.canaries`: audits of runs.
- :mod:`evertally.training.federated`: federated learning, with a server for any framework.
- :mod:`evertally.torch`, :mod:`evertally.jax` and :mod:`evertally.keras` do all of this for a framework.

>>> import evertally as et
>>> import numpy as np
>>> plan = et.training.plan_vector(100, epsilon=2.0, delta=1e-6, mechanism="smooth")
>>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "model", coordinates=3)
>>> gradients = np.zeros(3, np.float32)
>>> bool(noise.add_next(gradients).any())
True
"""

import importlib
from typing import TYPE_CHECKING

from .._evertally import (
    Batches,
    OmittedOption,
    RowNoise,
    Training,
    TrainingOption,
    VectorCandidate,
    VectorGuarantee,
    VectorNoise,
    VectorPlan,
)
from .._functions import plan_training, plan_vector
from ._order import FixedBatches
from ._users import Users

if TYPE_CHECKING:
    from . import canaries, federated, moments
else:

    def __getattr__(name):
        # These modules are imported when they are used: they need NumPy, which takes longer than everything else.
        if name in {"canaries", "federated", "moments"}:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = [
    "Batches",
    "FixedBatches",
    "OmittedOption",
    "RowNoise",
    "Training",
    "TrainingOption",
    "Users",
    "VectorCandidate",
    "VectorGuarantee",
    "VectorNoise",
    "VectorPlan",
    "canaries",
    "federated",
    "moments",
    "plan_training",
    "plan_vector",
]
