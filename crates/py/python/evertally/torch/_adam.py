"""Adam on noisy gradients, whose second moments do not count the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch


class DPAdam(torch.optim.Optimizer):
    """Adam, or with `weight_decay` AdamW, whose second moments are those of the gradients without their noise.

    The square of a gradient `g` with noise of variance `σ_t²` is `g² + σ_t²` in expectation. If the noise is larger
    than the gradients, as in private training, plain Adam divides every coordinate by about `σ_t`, and becomes
    momentum. Here the known variance is subtracted at every step, with the weights of the moving average (Tang,
    Shpilevskiy, Lécuyer 2024, arXiv 2312.14334, for one `σ`):

        v_t = β₂ v_(t-1) + (1-β₂) g_t²,      u_t = β₂ u_(t-1) + (1-β₂) σ_t²
        p -= lr · m̂_t / (√max(v̂_t - û_t, floor · e_t) + eps)

    `m̂`, `v̂`, `û` are divided by `1-β^t` as in Adam. `e_t` is the standard error of `v̂_t` due to noise alone that is
    independent over the steps: smaller values cannot be distinguished from zero. `floor` is the minimum of a second
    moment, as a multiple of it. Without noise this is Adam.

    A `DPFTRL` that wraps the optimizer sets `noise_std` before every step: the standard deviation of the plan's noise
    of that step in units of the gradient, which differs between steps if noise is correlated. Without a wrapper you
    must set it, such as to `noise_multiplier * max_grad_norm / expected_batch_size` with Opacus. The result is a
    function of the noisy gradients: post-processing, as private as these are.

    ``DPFTRL(…, second_moments=SecondMoments(…))`` also sets `second_moments`, released together with the gradients: `v`
    is then their moving average, `u` is 0 and `e` follows from their noise. They are mean squares of *single examples'*
    clipped gradients, while Adam's are squares of the *batch's* mean: for a batch of `B` with a mean close to zero,
    they are `B` times as large. Because steps divide by their roots, the learning rate can be up to `√B` times that of
    Adam.

    `eps` and `floor` are at least 0. A step raises ``RuntimeError`` if `noise_std` was not set, and ``ValueError`` if a
    gradient is not finite; it changes nothing then.

        optimizer = et.torch.DPAdam(model.parameters(), lr=1e-3)
        run = et.torch.make_private(model, loss, optimizer, dataset, plan, key, "run 1")
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        floor: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ValueError(f"betas are {betas}: give two numbers from 0, below 1")
        for name, value in {"lr": lr, "eps": eps, "floor": floor, "weight_decay": weight_decay}.items():
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} is {value}: give a number from 0")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, floor=floor, weight_decay=weight_decay))
        #: Standard deviation of the noise in each coordinate of the gradients of the next step.
        self.noise_std: float | None = None
        #: For each tensor an estimate of second moments, one number or one for each coordinate, and the standard
        #: deviation of its noise; None uses the squares of the gradients.
        self.second_moments: Sequence[tuple[torch.Tensor, float]] | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step on the noisy gradients in `p.grad`; parameters without a gradient stay the same. Returns the
        closure's result."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        if self.noise_std is None:
            raise RuntimeError(
                "DPAdam needs the standard deviation of the gradients' noise: wrap it in a DPFTRL, which sets it at "
                "every step, or set noise_std"
            )
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            raise ValueError(
                "a gradient has a number that is NaN or infinite, so no parameter was changed: clip every example's "
                "gradient before it is added, and count an example whose gradient is not finite as zero"
            )
        moments = iter(self.second_moments or ())
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    own = next(moments, None) if parameter.requires_grad else None
                    self._move(parameter, group, self.noise_std, own)
        return result

    def _move(
        self,
        parameter: torch.Tensor,
        group: dict[str, Any],
        noise_std: float,
        moment: tuple[torch.Tensor, float] | None,
    ) -> None:
        (first, second), state = group["betas"], self.state[parameter]
        if not state:
            state |= {"step": 0, "noise": 0.0, "error": 0.0}
            state["mean"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["square"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        assert parameter.grad is not None
        state["step"] += 1
        state["mean"].lerp_(parameter.grad, 1 - first)
        if moment is None:
            state["square"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
            bias, error = noise_std**2, math.sqrt(2) * noise_std**2
        else:
            estimate = moment[0].to(parameter)
            estimate = estimate.view_as(parameter) if estimate.numel() == parameter.numel() else estimate
            state["square"].mul_(second).add_(estimate, alpha=1 - second)
            bias, error = 0.0, moment[1]
        state["noise"] = second * state["noise"] + (1 - second) * bias
        state["error"] = second**2 * state["error"] + ((1 - second) * error) ** 2  # variances add up
        whole = 1 - second ** state["step"]
        least = group["floor"] * math.sqrt(state["error"]) / whole
        square = ((state["square"] - state["noise"]) / whole).clamp_(min=least)
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        rate = group["lr"] / (1 - first ** state["step"])
        parameter.addcdiv_(state["mean"], square.sqrt_().add_(group["eps"]), value=-rate)
