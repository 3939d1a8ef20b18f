"""Canaries in a training run, and the evidence about them in its releases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..._evertally import Batches, VectorPlan
from ._bets import APART, Array, Bets, Step
from ._report import AuditReport, Factor
from ._shown import shown
from ._whitening import noise_covariance, whitening

#: Lengths of the gradients of canaries and decoys before clipping, in norms: so long that clipping determines the
#: result. If a canary is summed with its decoy before clipping, the canary determines the direction.
CANARY, DECOY = 1e5, 1e2


class Order(Protocol):
    """An object that knows the examples of each step, such as :class:`evertally.training.Batches`."""

    def batch(self, step: int) -> Iterable[int]:
        """The numbers of the examples of a step, from 1."""


class TrainingAudit:
    """Watches whether a training run keeps its plan: coins that the run does not know decide which canaries take part,
    and the releases of the run must not reveal them better than the plan allows.

    A **canary** is an example whose gradient lies in its own coordinates, where no other example has any: the audit's
    coordinates, appended to those of the model. Its gradient is far longer than the clipping norm, so that its
    contribution is determined by clipping alone. Every canary has a **decoy**, which always takes part, with the
    opposite and shorter gradient: it reveals a sum that is clipped as a whole, instead of each example. If the plan's
    neighbours are ``"replace-one"``, an absent canary is replaced by its opposite.

    In each step of the run add the gradients of :meth:`canaries` to those of the batch, before clipping, and pass the
    result to :meth:`observe`. The audit knows coins, steps and samples; it does not need the key.

    >>> import evertally as et, numpy as np
    >>> from evertally.training.canaries import TrainingAudit
    >>> plan = et.training.plan_vector(40, rho=0.5, participations=4, separation=10, mechanism="banded-sqrt(bands=4)")
    >>> audit = TrainingAudit(plan, 20, seed=1)
    >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "audit", coordinates=audit.coordinates, dtype="float64")
    >>> for step in range(1, 41):
    ...     gradients = audit.canaries(step)      # and those of the batch, with zeros in these coordinates
    ...     lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    ...     clipped = gradients * np.minimum(1.0, plan.norm / np.maximum(lengths, 1e-300))
    ...     refuted = audit.observe(step, noise.add_next(clipped.sum(axis=0)))
    >>> refuted, audit.report().refuted
    (False, False)

    Parameters
    ----------
    plan
        The plan of the run, with ``series="increments"``.
    canaries
        Number of canaries, 2 or more. The lower bounds on ε grow with it; alarms need few.
    batches
        The examples of each step, by :meth:`Order.batch`: required if the plan has ``sampling``. Without it, canaries
        are spread over the steps as the plan allows.
    numbers
        The numbers of canaries and decoys in these batches, an array (canaries, 2). With
        :class:`evertally.training.Batches` the default is the last ones.
    steps
        Number of steps to watch, from the first, at most 2000. By default the whole run.
    significance
        Maximum probability of an alarm in a run that keeps its plan, over all steps together.
    tensors
        Number of tensors over which a canary's gradient is spread in equal parts, 1 or more. With 2 or more the audit
        detects clipping of each tensor by itself. With 1 there are no coordinates without canaries, and the audit does
        not look for reused noise.
    covariance
        The covariances of one coordinate of the noise between the watched steps, an array (steps, steps), if the noise
        is not the plan's own.
    seed
        The seed of the coins, for tests. By default from the operating system.
    """

    def __init__(
        self,
        plan: VectorPlan,
        canaries: int = 100,
        *,
        batches: Order | None = None,
        numbers: npt.ArrayLike | None = None,
        steps: int | None = None,
        significance: float = 0.01,
        tensors: int = 4,
        covariance: npt.ArrayLike | None = None,
        seed: int | None = None,
    ) -> None:
        if canaries < 2 or tensors < 1:
            raise ValueError(f"{canaries} canaries in {tensors} tensors: give 2 or more canaries in 1 tensor or more")
        if not 0.0 < significance < 1.0:
            raise ValueError(f"significance is {significance}: give a number between 0 and 1")
        watched = plan.horizon if steps is None else steps
        if not 1 <= watched <= plan.horizon:
            raise ValueError(f"cannot watch {watched} steps: the plan has {plan.horizon}")
        self.plan, self.steps, self.significance, self.tensors = plan, watched, significance, tensors
        self.covariance = noise_covariance(plan, watched) if covariance is None else _square(covariance, watched)
        self._whitening = whitening(self.covariance)
        self._takes_part = self._steps_of(canaries, batches, numbers)
        # The coins belong to this audit alone: nothing else in the run may know them.
        self._present = np.random.default_rng(seed).integers(0, 2, canaries).astype(bool)
        self._expected = self._means()
        self._released = np.zeros((watched, tensors, canaries))
        self._taken = 0
        self._bets = Bets(watched)
        self._evidence = np.zeros(watched)
        self._alarm: int | None = None
        self._reasons: list[str] = []

    @property
    def coordinates(self) -> int:
        """The number of coordinates that the audit adds to the gradient, tensor after tensor."""
        return self.tensors * self._present.size

    @property
    def refuted(self) -> bool:
        """Whether the evidence has sufficed at any step so far."""
        return self._alarm is not None

    def presence(self) -> npt.NDArray[np.bool_]:
        """Which canaries take part: **secret** until the run is over."""
        return self._present.copy()

    def directions(self) -> Array:
        """The unclipped gradients of canaries and of decoys, the same for the whole run: an array (canaries, 2,
        coordinates) with zeros for absent canaries."""
        size = self._present.size
        lengths = np.empty((size, 2))
        lengths[:, 0] = np.where(self._present, CANARY, -CANARY if self._is_replaced else 0.0)
        lengths[:, 1] = -DECOY
        direction = np.tile(np.eye(size), self.tensors) / np.sqrt(self.tensors)
        return np.asarray(self.plan.norm * lengths[:, :, None] * direction[:, None, :])

    def canaries(self, step: int) -> Array:
        """The unclipped gradients of the canaries and decoys that take part in a step: an array (examples,
        coordinates). Clip and sum them with the others of the batch."""
        if not 1 <= step <= self.steps:
            return np.zeros((0, self.coordinates))
        return self.directions()[self._takes_part[:, :, step - 1]]

    def observe(self, step: int, released: npt.ArrayLike) -> bool:
        """Observes the release of a step: the audit's coordinates of the noisy sum, **not divided** by a batch size.

        Returns whether the evidence has sufficed, at this step or earlier: the run may then stop. Steps after the
        watched ones are ignored. Raises ``ValueError``, and observes nothing, if a step was skipped, or if there are
        not as many numbers as the audit has coordinates.
        """
        if step > self.steps:
            return self.refuted
        if step != self._taken + 1:
            raise ValueError(
                f"step {step} does not follow step {self._taken}: an audit watches every step once, in order"
            )
        values = np.asarray(released, dtype=np.float64).reshape(-1)
        if values.size != self.coordinates:
            raise ValueError(f"got {values.size} released numbers, but the audit has {self.coordinates} coordinates")
        if not np.isfinite(values).all():
            raise ValueError(
                f"step {step} released a number that is not finite: clip so that no example can cause one"
            )
        self._released[step - 1] = _rotated(values.reshape(self.tensors, -1))
        self._taken = step
        self._evidence[step - 1] = self._bets.take(self._step(step - 1))
        if self._alarm is None and self._evidence[step - 1] >= -np.log(self.significance):
            self._alarm, self._reasons = step, self._bets.winners(self.significance)
        return self.refuted

    def report(self, *, delta: float = 1e-5, confidence: float = 0.95) -> AuditReport:
        """The findings so far.

        ``delta`` and ``confidence`` are those of the lower bound on ε, which is computed once all watched steps were
        observed.
        """
        bounds = None
        if self._taken == self.steps:
            bounds = shown(self.plan, *self._coins(), self._present, delta, confidence)
        canary, decoy, noise = self._factors()
        evidence = self._evidence[: self._taken]
        return AuditReport(
            plan=self.plan,
            canaries=self._present.size,
            steps=self._taken,
            watched=self.steps,
            significance=self.significance,
            evidence=evidence,
            p_value=float(min(1.0, np.exp(-max(evidence.max(initial=0.0), 0.0)))),
            alarm=self._alarm,
            families=tuple(self._reasons),
            canary=canary,
            decoy=decoy,
            noise=noise,
            bounds=bounds,
        )

    @property
    def _is_replaced(self) -> bool:
        return self.plan.neighbours == "replace-one"

    def _steps_of(self, canaries: int, batches: Order | None, numbers: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
        """The participations, an array (canaries, canary or decoy, steps)."""
        plan, takes_part = self.plan, np.zeros((canaries, 2, self.steps), dtype=bool)
        if batches is None:
            if plan.sampling is not None:
                raise ValueError("this plan samples its examples: give batches=, the batches of the run")
            period = min(plan.separation if plan.participations > 1 else self.steps, self.steps)
            for canary in range(canaries):
                last = canary * period // canaries + plan.participations * plan.separation
                takes_part[canary, :, canary * period // canaries : last : plan.separation] = True
            return takes_part
        if numbers is None:
            if not isinstance(batches, Batches):
                raise ValueError("numbers= is missing: give the numbers of canaries and decoys, an array (canaries, 2)")
            numbers = np.arange(batches.examples - 2 * canaries, batches.examples)
        self._numbers = np.asarray(numbers).reshape(-1, 2)
        places = {int(number): place for place, number in enumerate(np.asarray(numbers).reshape(-1))}
        if len(places) != 2 * canaries or min(places) < 0:
            raise ValueError(
                f"{canaries} canaries and their decoys need {2 * canaries} numbers of examples, each its own"
            )
        for step in range(self.steps):
            for number in batches.batch(step + 1):
                place = places.get(int(number))
                if place is not None:
                    takes_part[place // 2, place % 2, step] = True
        self._check_order(takes_part)
        return takes_part

    def _check_order(self, takes_part: npt.NDArray[np.bool_]) -> None:
        for example in takes_part.reshape(-1, self.steps) if self.plan.sampling is None else ():
            steps = np.flatnonzero(example) + 1
            if len(steps) > self.plan.participations or (np.diff(steps) < self.plan.separation).any():
                raise ValueError(
                    f"an example takes part in steps {', '.join(map(str, steps[:8]))}: the plan allows "
                    f"{self.plan.participations}, {self.plan.separation} apart"
                )

    def _means(self) -> Array:
        """The means of the innovations due to canaries and decoys, also if all batches were shifted to earlier or later
        steps: distances (0 in the middle), canaries, steps."""
        present = np.where(self._present, 1.0, -1.0 if self._is_replaced else 0.0)
        added = self.plan.norm * (present[:, None] * self._takes_part[:, 0] - self._takes_part[:, 1])
        added = np.pad(added, ((0, 0), (APART, APART)))
        shifted = (added[:, first : first + self.steps] for first in range(2 * APART + 1))
        return np.stack([moved @ self._whitening.T for moved in shifted])

    def _step(self, row: int) -> Step:
        weights = self._whitening[row, : row + 1]
        innovations = np.tensordot(weights, self._released[: row + 1], axes=1)
        canary, decoy = self._takes_part[:, 0, row], self._takes_part[:, 1, row]
        blank = self._released[row, 1:]
        deviation = 1.0 / weights[row]
        return Step(
            innovations=innovations[0],
            expected=self._expected[APART, :, row],
            weight=self.plan.norm * weights[row],
            outweighing=self._present & canary & decoy,
            elsewhere=np.where(self._present, ~canary * 1.0, ~decoy * -1.0),
            repeated=np.delete(self._expected[:, :, row], APART, axis=0),
            blank=innovations[1:],
            raw_blank=blank,
            predicted_blank=blank - innovations[1:] * deviation,
            deviation=float(deviation),
        )

    def _columns(self, which: npt.NDArray[Any]) -> Array:
        """The effect of contributions in these steps on the innovations: canaries, steps."""
        return np.asarray(self.plan.norm * (which[:, : self._taken] @ self._whitening[: self._taken, : self._taken].T))

    def _innovations(self) -> Array:
        return np.tensordot(self._whitening[: self._taken, : self._taken], self._released[: self._taken], axes=1)

    def _factors(self) -> tuple[Factor, Factor, Factor]:
        """The sizes of canaries, decoys and noise relative to their expected sizes, by least squares."""
        innovations = self._innovations()
        signs = np.where(self._present, 1.0, -1.0 if self._is_replaced else 0.0)
        canary = self._columns(signs[:, None] * self._takes_part[:, 0])
        decoy = self._columns(-1.0 * self._takes_part[:, 1])
        both = np.stack([canary.reshape(-1), decoy.reshape(-1)], axis=1)
        seen = innovations[:, 0].T.reshape(-1)
        others = innovations[:, 1:] if self.tensors > 1 else None
        noise = Factor(np.nan, np.nan)
        if others is not None and others.size:
            size = float(np.sqrt((others**2).mean()))
            noise = Factor(size, size / np.sqrt(2 * others.size))
        inverse = np.linalg.pinv(both.T @ both)
        best = inverse @ (both.T @ seen)
        scale = noise.value if np.isfinite(noise.value) else 1.0
        errors = scale * np.sqrt(np.maximum(np.diag(inverse), 0.0))
        unknown = np.diag(inverse) == 0.0
        canaries, decoys = (
            Factor(np.nan, np.nan) if nothing else Factor(float(value), float(error))
            for value, error, nothing in zip(best, errors, unknown, strict=True)
        )
        return canaries, decoys, noise

    def _coins(self) -> tuple[Array, Array]:
        """The effect of each canary's coin on the innovations, for an adversary who does not know the samples: the
        log-likelihood ratio of the release with and without the canary in a round, and the shift in standard deviations
        that the canary would cause; arrays (canaries, rounds). Without sampling there is one round, the whole run."""
        replaced = self._is_replaced and self.plan.groups is None
        absent = (-1.0 if replaced else 0.0) * self._takes_part[:, 0] - 1.0 * self._takes_part[:, 1]
        rest = self._innovations()[:, 0].T - self._columns(absent)
        if self.plan.groups is None:
            moved = (2.0 if replaced else 1.0) * self._columns(self._takes_part[:, 0])
            squares = (moved**2).sum(axis=1, keepdims=True)
            return (moved * rest).sum(axis=1, keepdims=True) - 0.5 * squares, np.sqrt(squares)
        # Groups are public, samples are not: a canary may take part in all steps of its group. The ratio is that of a
        # canary that takes part to none, and a replaced canary is the opposite one.
        moved = self.plan.norm * self._whitening
        squares = (moved**2).sum(axis=0)
        logs = np.append(rest @ moved - 0.5 * squares, np.zeros((len(rest), 1)), axis=1)
        groups = self.plan.groups
        steps = self._numbers[:, :1] % groups + groups * np.arange(-(-self.steps // groups))
        steps = np.minimum(steps, self.steps)  # beyond the last: nothing
        return np.take_along_axis(logs, steps, axis=1), np.sqrt(np.append(squares, 0.0))[steps]


def _rotated(tensors: Array) -> Array:
    """Replaces a canary's tensors by their sum and by coordinates to which it adds nothing: a reflection that maps the
    first axis to the diagonal, so that independent noise stays independent."""
    count = len(tensors)
    if count == 1:
        return tensors
    normal = np.full(count, 1.0 / np.sqrt(count))
    normal[0] -= 1.0
    normal /= np.linalg.norm(normal)
    return np.asarray(tensors - 2.0 * normal[:, None] * (normal @ tensors))


def _square(covariance: npt.ArrayLike, steps: int) -> Array:
    given = np.asarray(covariance, dtype=np.float64)
    if given.shape != (steps, steps) or not np.allclose(given, given.T):
        raise ValueError(f"covariance has shape {given.shape}: give a symmetric array ({steps}, {steps})")
    return given
