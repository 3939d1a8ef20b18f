"""Federated learning with user-level privacy: a plan over rounds, and a server object for any framework.

:func:`plan_rounds` plans noise for the sums of clipped updates from the population, the cohort, the rounds and the
minimum separation. A :class:`Server` clips and sums the updates of a round, refuses users that take part too often or
too soon, adds the plan's correlated noise to the sum, and moves the weights. One user is protected: all rounds in which
this user takes part, together. :mod:`evertally.flower` is a strategy of Flower that does the same.

The privacy unit and its neighbours: all updates of one user are replaced by 0 (``neighbours="add-remove"``), or by
others of the same rounds (``"replace-one"``). Who takes part when must not depend on the data of the users. The server
sees the updates, or with secure aggregation their sums; the guarantee is for everybody else who sees the weights.

>>> import evertally as et
>>> import numpy as np
>>> from evertally.training import federated
>>> plan = federated.plan_rounds(20, population=100, cohort=10, epsilon=8.0, delta=1e-3, norm=1.0)
>>> plan.separation, plan.participations
(10, 2)
>>> server = federated.Server(plan, et.SecretKey.generate(), "run 1", np.zeros(3, np.float32))
>>> cohort = server.sample(range(100))
>>> total = np.sum([server.clip(np.ones(3)) for user in cohort], axis=0)
>>> server.step(total, cohort).shape, server.round
((3,), 1)
"""

from ..moments import AdaptiveClipping
from ._plan import RoundsPlan, plan_rounds
from ._server import Server

__all__ = ["AdaptiveClipping", "RoundsPlan", "Server", "plan_rounds"]
