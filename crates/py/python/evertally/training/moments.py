"""Adaptive clipping and second moments of gradients, from the same release as the gradients.

A plan's guarantee is for vectors of at most `plan.norm` for each example and step, whatever their coordinates mean. So
a vector has room for more than a gradient, and all of it is one release under one budget: no budgets are added up.
:class:`Clipping` builds an example's vector from its gradient `g`, the current threshold `C`, and blocks `k = 1 … K` of
the parameters. With `x = g min(1, C/‖g‖)/C`, so that `r = ‖x‖ ≤ 1`, and `y_k = ‖x_k‖²`, so that `Σ y_k = r²`, it is

    norm · (a x,  s (b - ½),  λ (y - c))        b = 1 if ‖g‖ ≤ C, else 0

with the second part if the threshold adapts, and the third if second moments are requested.

**Added or removed, and replaced by another.** The vector of an absent example is 0, so the bound is on the length of
the vector itself, on both sides of the threshold: the mark of an example beyond the threshold is `-s/2` and not 0, as
long as that of one within. **A gradient of exactly 0 has the vector 0**, without mark and moments: so a user without
examples, a number without an example, and a row that only fills up a batch are absent, and not `√(1 + 3q)` norms from
an example beyond the threshold. Let `q = s²/4` be the share of the mark and `m` that of the moments.

- *Threshold alone*: `a² r² + s²/4 ≤ (1 - q) + q = 1` with `a² = 1 - q`. A mark of 0 or `s` would need `s² ≤ q`: half
  the signal. (The ½ is that of Andrew and others 2021, arXiv 1905.03871.)
- *Moments of K > 1 blocks*: `c = 1/K`, `λ² = m K/(K-1)` and `a² = 1 - q - m`. As `‖y‖² ≤ (Σ y_k)² = r⁴`, the squared
  length without the mark is at most `f(r²) = a² r² + λ² (r⁴ - 2 r²/K + 1/K)`, convex in `r²`, so that its ends decide:
  `f(1) = a² + λ² (K-1)/K = 1 - q`, and `f(0) = λ²/K = m/(K-1) ≤ 1 - q`. The centre saves a part `1/K` of the cost.
- *Moments of one block*: `c = 1`, `λ = a = √(1-q)`: `a² (r² + (1 - r²)²) ≤ 1 - q`. It costs nothing.
- A `scale` above 1 multiplies `λ`, and shortens the third part of an example to `√(1 - q - a² r²)` if it is longer:
  that alone keeps the bound.

Two vectors of at most `norm` are at most `2 norm` apart, which plans for replaced examples account for. All this holds
for every mechanism, and also if examples are sampled.

**Replaced in place** (`in_place`): only if an example is replaced by one that takes part in the *same steps*. Then
only the distance of two vectors counts, at most `2 norm`, and second moments cost nothing (joint moment
estimation: Kalinin, Upadhyay, Lampert 2025, arXiv 2502.06597, for all products of coordinates): `c = 0`, `λ² = a²/2`,
`a² = 1 - q`. Proof for blocks. For `x, x'` of length at most 1, the longer one `x`, let `U = ‖x - x'‖²`, `V = ‖x +
x'‖²`, `d_k = y_k - y'_k = ⟨(x - x')_k, (x + x')_k⟩`, `p = √(UV)` and `t = Σ d_k = ‖x‖² - ‖x'‖² ≥ 0`. By Cauchy and
Schwarz `Σ |d_k| ≤ p`, those of one sign add up to `(p + t)/2` at most, and so `Σ d_k² ≤ p (p + t)/2`. As `U + V + 2t =
4 ‖x‖² ≤ 4`, both `U ≤ 4` and `p ≤ 2`, and `U + ½ Σ d_k² ≤ U + UV/4 + tp/4 ≤ U + V + 2t ≤ 4`. The mark adds at most `s²
= 4q` to `4 a²`. With two blocks or more no larger `λ` works: let `x` be `(1, 1)/√2` and `x'` tend to `-x`. **A plan
does not guarantee this by itself**: its replaced examples may take part in other steps. Then one vector counts alone,
and its squared length can be `1 + a²/2`.

**Adaptivity.** Thresholds are a function of earlier releases. Guarantees of vector plans hold for vectors that depend
on all earlier releases, for every mechanism and with sampling: the noise is continuous and Gaussian, and given the past
a step shifts it by an amount that the past determines (Denisov and others 2022, arXiv 2202.08312, for matrix
mechanisms; the proofs of this library are in the headers of `mechanism/accounting/participation.rs` and
`crates/training/src/sampling.rs`). An example that is not finite has the vector 0, in all parts. Means are over the
*expected* batch size: the size of a batch may be a secret.

**Correlated noise.** A step's gradient gets the noise `C_t z_t`, and with `Z_t = z_1 + … + z_t` that of `n` steps is

    Σ C_t z_t = C_n Z_n - Σ (C_{t+1} - C_t) Z_t.

For given thresholds its standard deviation is at most `max sd(Z_t) · (C_n + Σ |C_{t+1} - C_t|)`. So noise that
cancels in running sums still does as long as the threshold's total variation is of the order of the threshold. A trend
adds no more than its distance, but the noise of the fraction adds in every step. The standard deviation of its part of
`log C_{t+1} - log C_t` is therefore limited to `j_t = 0.2/√max(100, t)`, whose squares grow like a logarithm. The mean
over the last `k` steps has less noise than a single fraction, by about `k/2` with noise that cancels. The rule takes
the least `k ≤ 16` with `rate · e_k ≤ j_t`, and otherwise the rate `j_t/e_16`, where `e_k = min(√k, 2)/k` times the
standard deviation of one step's fraction. That is an estimate, and accuracy alone depends on it. A new start of the
correlation at each change would be no better: it freezes `C_t Z_t` at the change, where continuing leaves
`(C_t - C_{t+1}) Z_t`, and needs more noise. In the run of `examples/federated`, four starts of 25 rounds have 2.65
times the noise in the last weights, and independent noise 3.03 times.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .._evertally import VectorPlan

__all__ = ["AdaptiveClipping", "Clipping", "SecondMoments"]

# As in `clip_and_sum`: room for the rounding of an example's vector to float32.
SHRINK = 1.0 - 2.0**-20
# Below the normal numbers float32 rounds more coarsely: there an example counts as zero.
SMALLEST = 2.0**-126
# With correlated noise: the most steps in a mean fraction, the steps after which changes become smaller, and the
# change of log C that noise may cause in each of these first steps.
_WINDOW, _STEPS, _CHANGE = 16, 100, 0.02
# Noise of all steps is looked up for plans of at most this number; in longer ones it is at most about 1.5 sigma.
_LOOKED_UP = 2**20

_Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AdaptiveClipping:
    """A clipping threshold that privately tracks a quantile of the gradients' lengths.

    After each step `threshold *= exp(rate * (quantile - fraction))`, where `fraction` is the noisy fraction of examples
    within the threshold, limited to `least` and `most` (Andrew and others 2021, arXiv 1905.03871). If the plan's noise
    is correlated over steps, `fraction` is a mean over up to 16 steps, and the rate is reduced until the noise of the
    fraction changes the threshold by about 2 % in a step, or less (:meth:`Clipping.for_plan`). `initial` is the
    first threshold, in units of gradients; choose it without looking at the data. `share`, between 0 and 1, is the part
    of the squared norm that the fraction uses: the gradient's noise is `1/√(1 - share)` times as large, 2.6 % more for
    0.05, and the standard error of a step's fraction is `σ_t / (2 √share · norm · batch)`, with the noise `σ_t` of the
    step.

    Raises ``ValueError`` for numbers outside their ranges.

    >>> from evertally.training.moments import AdaptiveClipping
    >>> AdaptiveClipping(quantile=0.5, initial=1.0).share
    0.05
    """

    quantile: float = 0.5
    initial: float = 1.0
    share: float = 0.05
    rate: float = 0.2
    least: float = 1e-6
    most: float = 1e6

    def __post_init__(self) -> None:
        for name in ("quantile", "share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give a number between 0 and 1")
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise ValueError(f"rate is {self.rate}: give a positive number; 0.2 is that of the paper")
        if not 1e-30 <= self.least <= self.initial <= self.most <= 1e30:
            raise ValueError(
                f"the threshold begins at {self.initial} and stays between {self.least} and {self.most}: give "
                "least ≤ initial ≤ most, from 1e-30 to 1e30"
            )


@dataclass(frozen=True)
class SecondMoments:
    """Private mean squares of the examples' clipped gradients: how large gradients are in each block of parameters.

    `per` is ``"block"`` (in a model, a tensor of parameters) or ``"coordinate"``. `share`, between 0 and 1, is the part
    of the squared norm that the moments use; with a single block they use none. `scale`, at least 1, is for many blocks
    over which the squares are spread: it divides the noise of the moments, and shortens the moments of examples whose
    squares lie in few blocks; the root of the number of blocks is a large value. `in_place` uses no share, and assumes
    that an example is replaced by one that takes part in the same steps: a weaker guarantee than that of the plan,
    which must have ``neighbours="replace-one"``. The module's header has the proofs.

    Raises ``ValueError`` for numbers outside their ranges.

    >>> SecondMoments(share=0.1).scale
    1.0
    """

    share: float = 0.05
    per: Literal["block", "coordinate"] = "block"
    scale: float = 1.0
    in_place: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share is {self.share}: give a number between 0 and 1")
        if self.per not in ("block", "coordinate"):
            raise ValueError(f'per is "{self.per}": give "block" or "coordinate"')
        if not 1 <= self.scale <= 1e6:
            raise ValueError(f"scale is {self.scale}: give a number from 1 to 1e6")
        if self.in_place and self.scale != 1:
            raise ValueError("in_place sets its own scale: omit scale")


class Clipping:
    """Encodes the examples' gradients as vectors, and decodes the noisy sum of vectors into the mean gradient, the
    second moments and the next threshold. Works with any framework: each step releases one vector.

    `norm` is the plan's. `sizes` are the numbers of coordinates of the blocks, in order; without second moments the
    division does not matter, and one number suffices. `expected_batch_size` is the declared one. Without `adaptive`
    the threshold is `norm`, or the fixed `threshold`, in units of gradients. `neighbours` is the plan's. `noise_std` is
    the standard deviation of a step's noise if noise is correlated over steps, and None if it is independent; the
    threshold then moves as the module's header describes. :meth:`for_plan` sets these from a plan.

    Sum the vectors of :meth:`encode` over the batch and add noise to the sum, as one vector of :attr:`coordinates`:

    >>> import evertally as et, numpy as np
    >>> from evertally.training.moments import AdaptiveClipping, Clipping
    >>> plan = et.training.plan_vector(100, norm=1.0, epsilon=2.0, delta=1e-5)
    >>> clipping = Clipping.for_plan(plan, [1000], expected_batch_size=64, adaptive=AdaptiveClipping(initial=0.1))
    >>> noise = et.VectorNoise(plan, et.SecretKey.generate(), "run", coordinates=clipping.coordinates)
    >>> gradients = np.ones((64, 1000), np.float32)                       # one row for each example
    >>> noisy = noise.add_next(clipping.encode(gradients).sum(axis=0))
    >>> clipping.decode(noisy).shape                                      # the mean gradient, with noise
    (1000,)
    >>> clipping.update(noisy)                                            # last: the threshold of the next step
    >>> clipping.threshold > 0.1                                          # all examples were beyond it
    True
    """

    def __init__(
        self,
        norm: float,
        sizes: Sequence[int],
        expected_batch_size: float,
        *,
        adaptive: AdaptiveClipping | None = None,
        moments: SecondMoments | None = None,
        threshold: float | None = None,
        neighbours: str = "add-remove",
        noise_std: float | None = None,
    ) -> None:
        if not (norm > 0 and math.isfinite(norm)):
            raise ValueError(f"norm is {norm}: give the norm of the plan, a positive number")
        if not sizes or min(sizes) < 1:
            raise ValueError("sizes are the numbers of coordinates of the blocks: give one or more, each at least 1")
        if not (expected_batch_size > 0 and math.isfinite(expected_batch_size)):
            raise ValueError(f"expected_batch_size is {expected_batch_size}: give a positive number")
        if adaptive is not None and threshold is not None:
            raise ValueError("threshold is for clipping that does not adapt: give AdaptiveClipping(initial=…)")
        if threshold is not None and not 1e-30 <= threshold <= 1e30:
            raise ValueError(f"threshold is {threshold}: give a number from 1e-30 to 1e30")
        if noise_std is not None and not (noise_std > 0 and math.isfinite(noise_std)):
            raise ValueError(f"noise_std is {noise_std}: give a positive number, or None for independent noise")
        if moments is not None and moments.in_place and neighbours != "replace-one":
            raise ValueError(f'in_place requires a plan with neighbours="replace-one": this one has "{neighbours}"')
        self.norm, self.expected_batch_size = float(norm), float(expected_batch_size)
        self.sizes = tuple(int(size) for size in sizes)
        self.adaptive, self.moments = adaptive, moments
        self._threshold = float(adaptive.initial if adaptive else norm if threshold is None else threshold)
        per_coordinate = moments is not None and moments.per == "coordinate"
        self._blocks = np.ones(sum(self.sizes)) if per_coordinate else np.array(self.sizes, np.float64)
        blocks = len(self._blocks)
        mark = adaptive.share if adaptive else 0.0
        self._mark = 2 * math.sqrt(mark)  # s
        self._scale, self._centre, taken = 0.0, 0.0, 0.0  # λ, c, m
        if moments is not None and moments.in_place:
            self._scale = math.sqrt((1 - mark) / 2)
        elif moments is not None and blocks == 1:
            self._scale, self._centre = moments.scale * math.sqrt(1 - mark), 1.0
        elif moments is not None:
            taken = moments.share
            self._scale, self._centre = moments.scale * math.sqrt(taken * blocks / (blocks - 1)), 1 / blocks
        if not mark + taken < 1:
            raise ValueError(f"the shares {mark} and {taken} leave nothing for the gradient: their sum must be below 1")
        self._kept = math.sqrt(1 - mark - taken)  # a
        self._noise_std, self._step = noise_std, 0
        self._fractions: list[float] = []  # the last ones, if noise is correlated

    @classmethod
    def for_plan(
        cls,
        plan: VectorPlan,
        sizes: Sequence[int],
        expected_batch_size: float,
        *,
        adaptive: AdaptiveClipping | None = None,
        moments: SecondMoments | None = None,
    ) -> Clipping:
        """Clipping for the noise of a plan: with its norm, its neighbours and, if the noise is correlated over steps,
        thresholds that move so slowly that it still cancels.

        Warns if the noise of the fraction is so large that the threshold cannot move by a factor of 10 in the run.
        """
        independent = plan.mechanism == "input" or plan.mechanism.endswith("bands=1)")
        noise_std = None
        if adaptive is not None and not independent:
            short = plan.horizon <= _LOOKED_UP
            noise_std = float(plan.noise_stds().max()) if short else 1.5 * plan.sigma
        made = cls(
            plan.norm, sizes, expected_batch_size,
            adaptive=adaptive, moments=moments, neighbours=plan.neighbours, noise_std=noise_std,
        )  # fmt: skip
        made.warn_if_slow(plan.horizon)
        return made

    def warn_if_slow(self, steps: int) -> None:
        """Warns if the threshold cannot move by a factor of 10 in a number of steps because of its noise."""
        if self.adaptive is None or self._noise_std is None or self.adaptive.rate * steps < 2 * math.log(10):
            return
        allowed = _CHANGE / self._error(_WINDOW)
        over = min(steps, _STEPS) + 2 * (math.sqrt(_STEPS * max(steps, _STEPS)) - _STEPS)  # Σ √(100/max(100, t))
        reach = 0.5 * min(self.adaptive.rate * steps, allowed * over)
        if reach < math.log(10):
            warnings.warn(
                f"the noise of the fraction of examples within the threshold is large, {self._error(1):.2g} in a step: "
                f"the threshold can move by a factor of at most {math.exp(reach):.1f} in {steps} steps. Plan larger "
                "batches or a larger ε, give a larger share, or a fixed threshold",
                stacklevel=3,
            )

    @property
    def threshold(self) -> float:
        """The length to which the next gradients are clipped. A function of earlier releases, and so public."""
        return self._threshold

    @property
    def extra(self) -> int:
        """The number of coordinates in addition to the gradient's."""
        return (self.adaptive is not None) + (len(self._blocks) if self.moments else 0)

    @property
    def coordinates(self) -> int:
        """The number of coordinates of the vector; the gradient's come first."""
        return sum(self.sizes) + self.extra

    @property
    def noise_scale(self) -> float:
        """The noise of the mean gradient, relative to the noise of a sum of vectors."""
        return self._threshold / (self._kept * self.norm * self.expected_batch_size)

    @property
    def moment_noise_scales(self) -> npt.NDArray[np.float64]:
        """The same for the second moments of the blocks."""
        self._needs_moments()
        return self._threshold**2 / (self._scale * self.norm * self.expected_batch_size * self._blocks)

    def weigh(self, lengths: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Computes from the gradients' lengths alone the factor of each example's gradient and its additional
        coordinates. `lengths` has a row for each example and a column for each block or coordinate that has a second
        moment (without second moments: for each block, or one for all), in float64. Both results are float32, and 0 for
        an example whose length is 0 or not finite.
        """
        lengths = np.asarray(lengths, np.float64)
        columns = len(self._blocks)
        if lengths.ndim != 2 or (lengths.shape[1] != columns and (self.moments or lengths.shape[1] != 1)):
            raise ValueError(f"lengths have shape {lengths.shape}: give a row for each example, {columns} columns")
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.sqrt((lengths * lengths).sum(axis=1))
            factors = self.norm * self._kept * SHRINK / np.maximum(whole, self._threshold)
        counts = np.isfinite(whole) & (whole > 0) & (factors >= SMALLEST)
        parts = []
        if self.adaptive:
            parts.append(self._mark * ((whole <= self._threshold) - 0.5)[:, None])
        if self.moments:
            parts.append(self._squares(lengths, whole, counts))
        extra = np.concatenate(parts, axis=1) if parts else np.zeros((len(whole), 0))
        extra = np.where(counts[:, None], extra * (self.norm * SHRINK), 0.0)
        return np.where(counts, factors, 0.0).astype(np.float32), extra.astype(np.float32)

    def _squares(self, lengths: _Array, whole: _Array, counts: _Array) -> _Array:
        """`λ (y - c)`, shortened if there is no room for it."""
        assert self.moments is not None
        clipped = np.where(counts, np.maximum(whole, self._threshold), 1.0)[:, None]
        shares = np.where(counts[:, None], lengths, 0.0) / clipped
        part: _Array = self._scale * (shares * shares - self._centre)
        if self.moments.in_place:
            return part
        used = self._mark**2 / 4 + self._kept**2 * (shares * shares).sum(axis=1)
        room = np.sqrt(np.maximum(1 - used, 0.0))
        long = np.sqrt((part * part).sum(axis=1))
        # Without a scale it always fits, up to the last digits.
        shortened: _Array = part * np.minimum(1.0, room / np.maximum(long, 1e-300))[:, None]
        return shortened

    def encode(self, gradients: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The vectors of examples, each of length at most `norm`: float32 of shape (examples, :attr:`coordinates`).

        `gradients` has a row for each example, of any length. A row that is not finite, or only zeros,
        has the vector 0. An empty batch has no rows, but its step is taken all the same.

        Raises ``ValueError`` if the rows do not have as many coordinates as the blocks.
        """
        rows = np.asarray(gradients, np.float64)
        size = sum(self.sizes)
        if rows.ndim != 2 or rows.shape[1] != size:
            raise ValueError(f"gradients have shape {rows.shape}: give one row of {size} for each example")
        with np.errstate(over="ignore", invalid="ignore"):
            starts = np.cumsum(self._blocks.astype(np.int64))[:-1]
            lengths = np.sqrt(np.add.reduceat(rows * rows, [0, *starts], axis=1))
        factors, extra = self.weigh(lengths)
        scaled = np.where(factors[:, None] > 0, rows, 0.0) * factors[:, None]
        return np.concatenate([scaled.astype(np.float32), extra], axis=1)

    def decode(self, noisy: _Array) -> _Array:
        """The mean of the clipped gradients, in units of gradients, from a noisy sum of vectors.

        >>> clipping = Clipping(1.0, [2], expected_batch_size=1, threshold=5.0)
        >>> bool(np.allclose(clipping.decode(clipping.encode([[3.0, 4.0]])[0]), [3, 4]))
        True
        """
        gradient: _Array = self._checked(noisy)[: sum(self.sizes)] * self.noise_scale
        return gradient

    def second_moments(self, noisy: _Array) -> npt.NDArray[np.float64]:
        """For each block, the mean square of a coordinate of an example's clipped gradient: an unbiased estimate
        (without `scale`, and if no gradient is exactly 0), which can be negative because of the noise.

        >>> clipping = Clipping(1.0, [2, 1], expected_batch_size=1, threshold=5.0, moments=SecondMoments())
        >>> bool(np.allclose(clipping.second_moments(clipping.encode([[3.0, 4.0, 0.0]])[0]), [12.5, 0], atol=1e-4))
        True
        """
        self._needs_moments()
        vector = self._checked(noisy)[len(noisy) - len(self._blocks) :].astype(np.float64)
        whole = self._centre * self._threshold**2 / self._blocks
        moments: npt.NDArray[np.float64] = vector * self.moment_noise_scales + whole
        return moments

    def update(self, noisy: _Array) -> None:
        """Updates the threshold; call it after decoding a noisy sum of vectors. Without `adaptive` it stays the
        same."""
        if self.adaptive is None:
            return
        mark = float(self._checked(noisy)[sum(self.sizes)])
        fraction = 0.5 + mark / (self._mark * self.norm * self.expected_batch_size)
        if not math.isfinite(fraction):
            raise ValueError("the noisy count is not a number: give the sum of vectors with its noise")
        self._step += 1
        if self._noise_std is None:
            change = self.adaptive.rate * (self.adaptive.quantile - fraction)
        else:
            change = self._slow_change(fraction, self.adaptive)
        # Beyond ±50 the bounds decide in any case.
        change = min(50.0, max(-50.0, change))
        self._threshold = min(self.adaptive.most, max(self.adaptive.least, self._threshold * math.exp(change)))

    def _slow_change(self, fraction: float, adaptive: AdaptiveClipping) -> float:
        """The change of the threshold's logarithm with correlated noise: see the module's header."""
        self._fractions = [*self._fractions, fraction][-_WINDOW:]
        allowed = _CHANGE * math.sqrt(_STEPS / max(_STEPS, self._step))
        number = 1
        while number < len(self._fractions) and adaptive.rate * self._error(number) > allowed:
            number += 1
        mean = sum(self._fractions[-number:]) / number
        return min(adaptive.rate, allowed / self._error(number)) * min(1.0, max(-1.0, adaptive.quantile - mean))

    def _error(self, number: int) -> float:
        """About the standard error of the mean fraction of a number of steps, if noise is correlated."""
        assert self._noise_std is not None
        one_step = self._noise_std / (self._mark * self.norm * self.expected_batch_size)
        return one_step * min(math.sqrt(number), 2) / number

    def state(self) -> dict[str, Any]:
        """The state for :meth:`restore` in a resumed run: plain numbers, and a list of them. Like the threshold, they
        are functions of earlier releases."""
        own = {"threshold": self._threshold, "extra": self.extra, "kept": self._kept}
        return own | {"step": self._step, "fractions": list(self._fractions)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a :meth:`state` of clipping with the same shares; refuses others with ``ValueError``."""
        self.check_state(state)
        self._threshold = float(state["threshold"])
        self._step, self._fractions = int(state["step"]), [float(fraction) for fraction in state["fractions"]]

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raises the errors of :meth:`restore`, without restoring anything."""
        if (state["extra"], state["kept"]) != (self.extra, self._kept):
            raise ValueError("the state belongs to other clipping: give the same adaptive clipping and second moments")
        if not 1e-30 <= state["threshold"] <= 1e30:
            raise ValueError(f"the state's threshold is {state['threshold']}: it is damaged")

    def _needs_moments(self) -> None:
        if self.moments is None:
            raise ValueError("there are no second moments: give moments=SecondMoments()")

    def _checked(self, noisy: _Array) -> _Array:
        if noisy.shape != (self.coordinates,):
            raise ValueError(f"the noisy sum has shape {noisy.shape} instead of ({self.coordinates},)")
        return noisy
