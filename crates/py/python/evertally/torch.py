"""Private training with PyTorch: any optimizer, with correlated noise in its gradients.

    import evertally as et
    import evertally.torch

    plan = et.plan_vector(steps, norm=1.0, epsilon=4.0, delta=1e-6, mechanism="smooth", series="increments")
    private = et.torch.DPFTRL(optimizer, plan, key, "digits, run 1", expected_batch_size=64)
    for batch in batches:
        ...                 # leaves per-example gradients in p.grad_sample, as Opacus does
        private.step()      # clip, sum, add noise, divide, optimizer.step()
        private.zero_grad()

The gradient of a step is a vector over all parameters, one after the other in the optimizer's order. Each example's
vector is clipped to the plan's norm, the vectors are summed, the increment of the plan's noise is added, and the
result is divided by the expected batch size. Whatever the optimizer makes of it is post-processing, and as private
as the plan says. With the plan's mechanism `input` this is DP-SGD without amplification; with the others it is
DP-FTRL, also called DP-SGD with correlated noise (Kairouz and others 2021, Denisov and others 2022).

What only the caller can see to: that no example takes part in more steps than the plan's `participations`, nor sooner
than its `separation`; that per-example gradients depend on one example each (no batch normalization); that the expected
batch size is a declared number and not the size of a batch; that metrics and early stopping do not read private data.

The noise is made on the CPU. Parameters there that are float32 get gradients that are views of one vector, with no
copy. For others, the vector is copied to their device once a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import evertally

try:
    import torch
except ImportError as missing:
    raise ImportError("evertally.torch needs PyTorch: pip install torch") from missing

__all__ = ["DPFTRL", "clip_and_sum"]

# A clipped vector must not be longer than the norm after its own rounding to float32 (relative error 2⁻²⁴ a coordinate,
# and as much in the factor); norms are computed in float64. So the factor aims lower by more than both.
SHRINK = 1.0 - 2.0**-20


def clip_and_sum(grad_samples: Sequence[torch.Tensor], norm: float) -> list[torch.Tensor]:
    """Clips each example's gradient over all tensors together to `norm` and sums over the examples.

    Each tensor has the examples along its first dimension. The sums are float32 and lie on their tensor's device. An
    example whose gradient is not finite counts as zero: it would make the sum, and the whole model, tell of it.
    """
    examples = {len(tensor) for tensor in grad_samples}
    if len(examples) != 1:
        raise ValueError(
            f"per-example gradients of one step have {sorted(examples)} examples: give all the same number"
        )
    if examples == {0}:
        return [torch.zeros(tensor.shape[1:], dtype=torch.float32, device=tensor.device) for tensor in grad_samples]
    rows = [tensor.reshape(len(tensor), -1) for tensor in grad_samples]
    norms = torch.stack(
        [torch.linalg.vector_norm(row, dim=1, dtype=torch.float64).to(grad_samples[0].device) for row in rows]
    )
    lengths = torch.linalg.vector_norm(norms, dim=0)
    finite = lengths.isfinite()
    factors = torch.clamp(norm / lengths, max=1.0) * SHRINK
    factors = torch.where(finite, factors, 0.0).to(torch.float32)
    sums = []
    for tensor, row in zip(grad_samples, rows):
        # A product of its own, not a matrix product: those may round harder than float32 (TF32).
        clipped = torch.where(finite.to(row.device)[:, None], row, 0.0) * factors.to(row.device)[:, None]
        sums.append(clipped.sum(dim=0, dtype=torch.float32).view(tensor.shape[1:]))
    return sums


class DPFTRL:
    """Wraps an optimizer so that its steps see only noisy sums of clipped per-example gradients.

    The plan must be one of increments, and needs one step of its horizon for each `step()`. The coordinates of the
    noise are the trainable parameters in the order of the optimizer's groups: keep model and optimizer as they are
    for the whole run. Schedulers are given `optimizer`, the wrapped one.

    `state_dict` holds the optimizer's state and the noise's. **Both are secret**: the state of some mechanisms is
    noise that is still in use, and whoever has it can take it off the gradients. A resumed run continues bit for
    bit. The noise of a step is always the same: two different sums under it show their exact difference to whoever sees
    both results. So steps that are taken again, from an older state or by another run under the name, are refused
    (`evertally.StateError`, and nothing changes) as soon as their sum is not the same; a run with another learning rate
    or another order needs a name of its own. Ranks of a distributed run that see parts of a batch add their sums up first and give
    `step` the same total on each.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        plan: evertally.VectorPlan,
        key: evertally.SecretKey,
        name: str,
        *,
        expected_batch_size: float,
        threads: int = 1,
        memory: str = "keep",
    ) -> None:
        if plan.series != "increments":
            raise ValueError(f'the plan\'s series is "{plan.series}": gradients need series="increments"')
        if not expected_batch_size > 0:
            raise ValueError(f"expected_batch_size is {expected_batch_size}: give a positive number")
        self.optimizer = optimizer
        self.plan = plan
        self.expected_batch_size = expected_batch_size
        self._identity = (plan, key, name)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        sizes = [p.numel() for p in self._parameters]
        self._gradient = torch.zeros(sum(sizes), dtype=torch.float32)
        self._parts = self._gradient.split(sizes)
        self._options = {"coordinates": sum(sizes), "dtype": "float32", "threads": threads, "memory": memory}
        self.noise = evertally.VectorNoise(*self._identity, **self._options)

    @torch.no_grad()
    def step(self, clipped_sum: Iterable[torch.Tensor] | None = None) -> None:
        """One private step.

        Without an argument it clips and sums what is in `p.grad_sample` of each parameter (a tensor with the examples
        first, or Opacus's list of such tensors) and removes it. With `clipped_sum`, one tensor for each trainable
        parameter, clipping and summing is the caller's: each example's vector over all tensors must have at most the
        plan's norm. For an empty batch give zeros: the step must be taken, with its noise.
        """
        self._refuse_other_gradients()
        sums = self._sum_of_samples() if clipped_sum is None else list(clipped_sum)
        try:
            self._gather(sums)
            self.noise.add_next(self._gradient.numpy())
        except BaseException:
            # Gradients of the step before may be views of this vector: they must not show a sum without its noise.
            self._gradient.zero_()
            raise
        self._gradient.div_(self.expected_batch_size)
        self._hand_out()
        self.optimizer.step()

    def zero_grad(self) -> None:
        """Forgets gradients, per-example ones too."""
        for parameter in self._parameters:
            parameter.grad_sample = None
        self.optimizer.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """State of the optimizer and of the noise, secret; for `torch.save` and `load_state_dict`."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "shapes": self._shapes(),
            "noise": torch.frombuffer(bytearray(self.noise.save()), dtype=torch.uint8),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same plan, key, name and parameters; refuses others."""
        if [list(shape) for shape in state["shapes"]] != self._shapes():
            raise ValueError("the state is that of a model with other parameters: build the model as it was")
        noise = evertally.VectorNoise.restore(*self._identity, state["noise"].numpy().tobytes(), **self._options)
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise = noise

    def _refuse_other_gradients(self) -> None:
        """The optimizer would apply the exact gradient of a parameter that the noise does not cover."""
        covered = {id(parameter) for parameter in self._parameters}
        for parameter in (p for group in self.optimizer.param_groups for p in group["params"]):
            if id(parameter) not in covered and (parameter.requires_grad or parameter.grad is not None):
                raise ValueError(
                    "the optimizer has a trainable parameter that was frozen or missing when DPFTRL was made: its "
                    "gradient would get no noise. Freeze and add parameters before"
                )

    def _shapes(self) -> list[list[int]]:
        return [list(parameter.shape) for parameter in self._parameters]

    def _sum_of_samples(self) -> list[torch.Tensor | None]:
        """Clipped sums by parameter; None for those that no example reached."""
        samples = [_joined(getattr(parameter, "grad_sample", None)) for parameter in self._parameters]
        present = [sample for sample in samples if sample is not None]
        if not present:
            raise ValueError(
                "no parameter has a grad_sample: compute per-example gradients (Opacus's GradSampleModule or "
                "torch.func) before step(), or give clipped_sum"
            )
        for parameter, sample in zip(self._parameters, samples):
            if sample is not None and sample.shape[1:] != parameter.shape:
                raise ValueError(
                    f"a grad_sample has shape {list(sample.shape)} for a parameter of shape {list(parameter.shape)}: "
                    "it needs one more dimension, of examples, in front"
                )
        sums = iter(clip_and_sum(present, self.plan.norm))
        for parameter in self._parameters:
            parameter.grad_sample = None
        return [None if sample is None else next(sums) for sample in samples]

    def _gather(self, sums: list[torch.Tensor | None]) -> None:
        """Writes the sums into the one vector that noise is added to. Checks them all first: a step must not half
        happen."""
        if len(sums) != len(self._parameters):
            raise ValueError(f"clipped_sum has {len(sums)} tensors for {len(self._parameters)} trainable parameters")
        for parameter, total in zip(self._parameters, sums):
            if total is not None and total.shape != parameter.shape:
                raise ValueError(f"a clipped sum has shape {list(total.shape)} instead of {list(parameter.shape)}")
        for part, total in zip(self._parts, sums):
            if total is None:
                part.zero_()
            else:
                part.copy_(total.reshape(-1))

    def _hand_out(self) -> None:
        """Sets `p.grad`: views of the vector, on each device a copy of it."""
        copies: dict[torch.device, Sequence[torch.Tensor]] = {}
        sizes = [len(part) for part in self._parts]
        for index, parameter in enumerate(self._parameters):
            if parameter.device not in copies:
                copies[parameter.device] = self._gradient.to(parameter.device).split(sizes)
            parameter.grad = copies[parameter.device][index].view(parameter.shape).to(parameter.dtype)


def _joined(samples: torch.Tensor | list[torch.Tensor] | None) -> torch.Tensor | None:
    """Opacus keeps a list where several backward passes went into one step."""
    if isinstance(samples, list):
        return torch.cat(samples) if samples else None
    return samples
