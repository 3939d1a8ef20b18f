"""Vectors with more coordinates than a model's gradient: `evertally.training.moments` over tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import evertally
import numpy as np
import torch

from evertally.training.moments import AdaptiveClipping, Clipping, SecondMoments
from evertally.torch._gradients import Weighing, same_number
from evertally.torch._layers import Formed


class Released:
    """The release of a step of `DPFTRL`: the clipped gradient, and further coordinates if they are requested."""

    def __init__(
        self,
        optimizer: Any,
        plan: evertally.training.VectorPlan,
        sizes: Sequence[int],
        expected_batch_size: float,
        adaptive: AdaptiveClipping | None,
        moments: SecondMoments | None,
    ) -> None:
        self.clipping: Clipping | None = None
        if adaptive is not None or moments is not None:
            self.clipping = Clipping.for_plan(plan, sizes, expected_batch_size, adaptive=adaptive, moments=moments)
        self._sizes, self._norm, self._expected = list(sizes), plan.norm, expected_batch_size
        self._optimizer = optimizer if hasattr(optimizer, "noise_std") else None
        self._stds = np.zeros(0) if self._optimizer is None else plan.noise_stds()

    @property
    def coordinates(self) -> int:
        """The number of coordinates of the noise."""
        return sum(self._sizes) if self.clipping is None else self.clipping.coordinates

    @property
    def threshold(self) -> float:
        """The length to which the next gradients are clipped."""
        return self._norm if self.clipping is None else self.clipping.threshold

    @property
    def further(self) -> int:
        """The number of coordinates in addition to the gradient's."""
        return self.coordinates - sum(self._sizes)

    def encode(self, samples: Sequence[torch.Tensor | None]) -> tuple[list[torch.Tensor | None], torch.Tensor]:
        """The sums of the examples' gradients by tensor, and of their further coordinates in float64."""
        assert self.clipping is not None
        return encode_and_sum(samples, self._sizes, self.clipping)

    def weighing(self, further: torch.Tensor) -> tuple[Weighing, float]:
        """For gradients of which only the lengths are known: the weighing, with factors of at most 1, and the power of
        two by which the sums are multiplied at the end. Further coordinates are added to a vector in float64.

        A gradient shorter than the threshold is made longer, by `norm / threshold` at most, and so would be the error
        of tiny numbers. With the power of two applied separately, the computation is as if gradients were clipped to a
        norm that is smaller by it."""
        clipping, norm = self.clipping, self._norm
        assert clipping is not None and clipping.moments is None
        scale = 2.0 ** max(0, math.frexp(norm / clipping.threshold)[1])

        def weigh(lengths: torch.Tensor, underflow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            known = torch.where(underflow * scale > norm * 2.0**-22, math.inf, lengths)
            factors, extra = clipping.weigh(known.cpu()[:, None].numpy())
            further.add_(torch.from_numpy(extra).sum(dim=0, dtype=torch.float64))
            weights = torch.from_numpy(factors).to(lengths.device) / scale
            weights = torch.where(weights >= 2.0**-126, weights, 0.0)
            return weights > 0, weights

        return weigh, scale

    def decode(self, vector: torch.Tensor, step: int) -> None:
        """Turns a step's noisy vector into the mean gradient, in place, and sets the attributes that the optimizer
        needs."""
        size = sum(self._sizes)
        scale = 1 / self._expected if self.clipping is None else self.clipping.noise_scale
        if self._optimizer is not None:
            self._optimizer.noise_std = float(self._stds[step - 1]) * scale
        if self.clipping is None:
            vector.div_(self._expected)
            return
        noisy = vector.numpy()
        if self._optimizer is not None and self.clipping.moments is not None:
            self._optimizer.second_moments = self._moments(noisy, float(self._stds[step - 1]))
        self.clipping.update(noisy)
        vector[:size].mul_(scale)
        vector[size:].zero_()  # cleared for the next step, which may have no examples

    def _moments(self, noisy: Any, std: float) -> list[tuple[torch.Tensor, float]]:
        """The second moments by tensor, with the standard deviation of their noise."""
        assert self.clipping is not None and self.clipping.moments is not None
        found = torch.from_numpy(self.clipping.second_moments(noisy))
        parts = found.split(self._sizes if self.clipping.moments.per == "coordinate" else [1] * len(self._sizes))
        stds = torch.from_numpy(std * self.clipping.moment_noise_scales).split([len(part) for part in parts])
        return [(part, float(own[0])) for part, own in zip(parts, stds)]

    def refuse_sums(self) -> None:
        """Refuses sums if gradients' lengths are needed: a sum does not contain them."""
        if self.clipping is not None:
            raise ValueError(
                "adaptive clipping and second moments need the gradients of single examples: leave them in "
                "p.grad_sample, unclipped, and call step() without a sum"
            )

    def state(self) -> dict[str, Any] | None:
        """The state of the clipping, for a resumed run."""
        return None if self.clipping is None else self.clipping.state()

    def check_state(self, state: dict[str, Any] | None) -> None:
        """Refuses a state of other clipping."""
        if (state is None) != (self.clipping is None):
            raise ValueError(
                "the state belongs to other clipping: give the same adaptive_clipping and second_moments, or neither"
            )
        if self.clipping is not None and state is not None:
            self.clipping.check_state(state)

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continues from a state that was checked."""
        if self.clipping is not None and state is not None:
            self.clipping.restore(state)


def encode_and_sum(
    samples: Sequence[torch.Tensor | None], sizes: Sequence[int], clipping: Clipping
) -> tuple[list[torch.Tensor | None], torch.Tensor]:
    """The sum of all examples' vectors: a tensor for each tensor of per-example gradients, and the further coordinates.

    Sums are float32, those of further coordinates float64; None, which means gradients of zero, stays None.
    """
    present = [sample for sample in samples if sample is not None]
    same_number(present)
    factors, extra = clipping.weigh(_lengths(samples, sizes, len(present[0]), clipping).numpy())
    weights = torch.from_numpy(factors)
    sums = [None if sample is None else Formed(sample).sum(weights > 0, weights) for sample in samples]
    return sums, torch.from_numpy(extra).sum(dim=0, dtype=torch.float64)


def _lengths(
    samples: Sequence[torch.Tensor | None], sizes: Sequence[int], examples: int, clipping: Clipping
) -> torch.Tensor:
    """The lengths in float64 on the CPU, with a column for each tensor, or for each coordinate."""
    if clipping.moments is not None and clipping.moments.per == "coordinate":
        parts = [
            torch.zeros(examples, size, dtype=torch.float64, device="cpu")
            if sample is None
            else sample.detach().reshape(examples, -1).abs().double().cpu()
            for sample, size in zip(samples, sizes)
        ]
        return torch.cat(parts, dim=1)
    squares = [
        torch.zeros(examples, dtype=torch.float64, device="cpu")
        if sample is None
        else Formed(sample.detach()).squares().cpu()
        for sample in samples
    ]
    return torch.stack(squares, dim=1).sqrt()
