"""Conversions between privacy budgets.

Every result is a valid statement: conversions round towards the weaker guarantee. For budgets as objects see
:class:`evertally.Budget`.
"""

from ._evertally import (
    delta_of_gaussian,
    delta_of_zcdp,
    epsilon_of_gaussian,
    epsilon_of_sampled,
    epsilon_of_zcdp,
    mu_for,
    noise_of_sampled,
    rho_for,
    zcdp_of_pure,
)

__all__ = [
    "delta_of_gaussian",
    "delta_of_zcdp",
    "epsilon_of_gaussian",
    "epsilon_of_sampled",
    "epsilon_of_zcdp",
    "mu_for",
    "noise_of_sampled",
    "rho_for",
    "zcdp_of_pure",
]
