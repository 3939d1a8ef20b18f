"""dp-accounting: Gaussian noise, alone and composed, with and without Poisson sampling, and zCDP."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import dp_accounting
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import accountant, common, pld_privacy_accountant, privacy_loss_distribution
from dp_accounting.pld import privacy_loss_mechanism as mechanisms
from dp_accounting.rdp import rdp_privacy_accountant
from evertally import budget
from scipy.optimize import brentq

from . import NoAnswer, each, substitute

CONNECTED = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


class Noise(NamedTuple):
    """Steps of Gaussian noise; the standard deviation is in units of the sensitivity."""

    deviation: float
    rate: float
    steps: int


Noises = tuple[Noise, ...]


def mu_of(noises: Noises) -> float:
    """Of unsampled steps together."""
    return math.sqrt(sum(one.steps / one.deviation**2 for one in noises))


def epsilon(noises: Noises, delta: float) -> float:
    if not noises or any(one.deviation <= 0 for one in noises):
        raise NoAnswer
    if all(one.rate == 1 for one in noises):
        return budget.epsilon_of_gaussian(mu_of(noises), delta)
    if len({(one.deviation, one.rate) for one in noises}) > 1:
        raise NoAnswer
    first, steps = noises[0], sum(one.steps for one in noises)
    return budget.epsilon_of_sampled(first.deviation, rate=first.rate, steps=steps, delta=delta)


def delta(noises: Noises, epsilon_: float) -> float:
    if not noises or any(one.deviation <= 0 for one in noises):
        raise NoAnswer
    if all(one.rate == 1 for one in noises):
        return budget.delta_of_gaussian(mu_of(noises), epsilon_)
    if epsilon_ <= 0:
        raise NoAnswer
    # ε is a decreasing function of δ; brentq raises a ValueError where it does not reach the given ε.
    found = brentq(
        lambda log: epsilon(noises, math.exp(log)) - epsilon_, math.log(1e-14), math.log(0.5), xtol=1e-6, rtol=1e-6
    )
    return math.exp(found)


def noises_of(event: Any, count: int = 1) -> Noises:
    """The Gaussian steps of an event, if it has no others."""
    if isinstance(event, dp_accounting.NoOpDpEvent):
        return ()
    if isinstance(event, dp_accounting.GaussianDpEvent):
        return (Noise(event.noise_multiplier, 1.0, count),)
    if isinstance(event, dp_accounting.PoissonSampledDpEvent):
        inner = noises_of(event.event)
        if len(inner) != 1 or inner[0].rate != 1 or not 0 < event.sampling_probability <= 1:
            raise NoAnswer
        return (Noise(inner[0].deviation / math.sqrt(inner[0].steps), event.sampling_probability, count),)
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        return noises_of(event.event, count * event.count)
    if isinstance(event, dp_accounting.ComposedDpEvent):
        return tuple(noise for one in event.events for noise in noises_of(one, count))
    raise NoAnswer


def rho_of(event: Any, count: int = 1) -> float:
    """ρ of an event made of zCDP events only."""
    if isinstance(event, dp_accounting.ZCDpEvent) and getattr(event, "xi", 0) == 0:
        return count * event.rho
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        return rho_of(event.event, count * event.count)
    if isinstance(event, dp_accounting.ComposedDpEvent) and event.events:
        return sum(rho_of(one, count) for one in event.events)
    raise NoAnswer


def noises_of_ledger(account: Any) -> Noises:
    noises = noises_of(account.ledger)
    if account._neighboring_relation != CONNECTED and any(one.rate < 1 for one in noises):
        raise NoAnswer
    return noises


def accountant_epsilon(account: Any, target_delta: float) -> float:
    try:
        rho = rho_of(account.ledger)
    except NoAnswer:
        return epsilon(noises_of_ledger(account), target_delta)
    return budget.epsilon_of_zcdp(rho, target_delta)


def accountant_delta(account: Any, target_epsilon: float) -> float:
    return delta(noises_of_ledger(account), target_epsilon)


def noises_of_distribution(distribution: Any) -> Noises:
    found: Noises | None = getattr(distribution, "noises", None)
    if found is None:
        raise NoAnswer
    return found


def mark_distributions() -> None:
    """Privacy loss distributions of Gaussian noise remember the noise, also when composed."""
    pld = privacy_loss_distribution
    kind = pld.PrivacyLossDistribution
    make, identity, compose, repeat = pld.from_gaussian_mechanism, pld.identity, kind.compose, kind.self_compose

    @functools.wraps(make)
    def from_gaussian_mechanism(standard_deviation: float, *args: Any, **kwargs: Any) -> Any:
        made = make(standard_deviation, *args, **kwargs)
        sensitivity = args[0] if args else kwargs.get("sensitivity", 1)
        rate = args[5] if len(args) > 5 else kwargs.get("sampling_prob", 1)
        pessimistic = args[1] if len(args) > 1 else kwargs.get("pessimistic_estimate", True)
        relation = kwargs.get("neighboring_relation", CONNECTED)
        if pessimistic and len(args) <= 6 and (rate == 1 or relation == CONNECTED):
            made.noises = (Noise(standard_deviation / sensitivity, rate, 1),)
        return made

    @functools.wraps(identity)
    def of_nothing(*args: Any, **kwargs: Any) -> Any:
        made = identity(*args, **kwargs)
        made.noises = ()
        return made

    @functools.wraps(compose)
    def composed(self: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        made = compose(self, other, *args, **kwargs)
        if hasattr(self, "noises") and hasattr(other, "noises"):
            made.noises = self.noises + other.noises
        return made

    @functools.wraps(repeat)
    def repeated(self: Any, times: int, *args: Any, **kwargs: Any) -> Any:
        made = repeat(self, times, *args, **kwargs)
        if hasattr(self, "noises"):
            made.noises = tuple(one._replace(steps=one.steps * times) for one in self.noises)
        return made

    pld.from_gaussian_mechanism, pld.identity = from_gaussian_mechanism, of_nothing
    kind.compose, kind.self_compose = composed, repeated


def loss_delta(loss: Any, epsilon_: Any) -> Any:
    """δ of one step of noise in one direction: without sampling, that of either."""
    if loss.sampling_prob != 1 or not loss._pessimistic_estimate:
        raise NoAnswer
    mu = loss.sensitivity / loss._standard_deviation
    return each(lambda value: budget.delta_of_gaussian(mu, value), epsilon_)


def replace() -> None:
    substitute(gaussian_mechanism, "get_epsilon_gaussian", lambda s, d, tol=None: budget.epsilon_of_gaussian(1 / s, d))
    substitute(gaussian_mechanism, "get_sigma_gaussian", lambda e, d, tol=None: 1 / budget.mu_for(e, d))
    substitute(accountant, "get_smallest_gaussian_noise", smallest_noise)
    substitute(accountant, "get_smallest_subsampled_gaussian_noise", smallest_sampled_noise)
    for kind in (pld_privacy_accountant.PLDAccountant, rdp_privacy_accountant.RdpAccountant):
        substitute(kind, "get_epsilon", accountant_epsilon)
        substitute(kind, "get_delta", accountant_delta)
    mark_distributions()
    kind = privacy_loss_distribution.PrivacyLossDistribution
    substitute(
        kind, "get_delta_for_epsilon", lambda self, e: each(functools.partial(delta, noises_of_distribution(self)), e)
    )
    substitute(kind, "get_epsilon_for_delta", lambda self, d: epsilon(noises_of_distribution(self), d))
    substitute(mechanisms.GaussianPrivacyLoss, "get_delta_for_epsilon", loss_delta)


def smallest_noise(parameters: common.DifferentialPrivacyParameters, num_queries: int, sensitivity: float = 1) -> float:
    return sensitivity * math.sqrt(num_queries) / budget.mu_for(parameters.epsilon, parameters.delta)


def smallest_sampled_noise(
    parameters: common.DifferentialPrivacyParameters, num_queries: int, sensitivity: float = 1, sampling_prob: float = 1
) -> float:
    given = {"rate": sampling_prob, "steps": num_queries}
    return sensitivity * budget.noise_of_sampled(parameters.epsilon, parameters.delta, **given)
