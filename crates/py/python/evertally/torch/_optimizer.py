"""An optimizer whose gradients have a plan's noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import evertally
import torch

from evertally.moments import AdaptiveClipping, SecondMoments
from evertally.torch._clipping import Released
from evertally.torch._gradients import clip_and_sum


class Order(Protocol):
    """Whatever knows the examples of each step."""

    def batch(self, step: int) -> Iterable[int]:
        """The numbers of the examples of a step, from 1."""


class DPFTRL(torch.optim.Optimizer):
    """Wraps an optimizer so that its steps see only noisy sums of clipped per-example gradients.

    It is an optimizer itself, with the groups and the state of the wrapped one: schedulers take either. A step of the
    wrapped one by itself is refused.

    The plan must be one of increments, and needs one step of its horizon for each `step()`. The coordinates of the
    noise are the trainable parameters in the order of the optimizer's groups: keep model and optimizer as they are
    for the whole run.

    `adaptive_clipping` and `second_moments` (`evertally.moments`) release more than the gradient, in the same vector
    and under the same promise. Steps then need per-example gradients; the model's tensors are the blocks. A wrapped
    `DPAdam` is told the noise's standard deviation, and the second moments, before each of its steps.

    A plan with `sampled` needs its `batches`: the step then refuses another number of examples than the batch has, and
    other examples if it is told them.

    `state_dict` holds the optimizer's state and the noise's. **Both are secret**: the state of some mechanisms is
    noise that is still in use, and whoever has it can take it off the gradients. A resumed run continues bit for
    bit. The noise of a step is always the same: two different sums under it show their exact difference to whoever sees
    both results. So steps that are taken again, from an older state or by another run under the name, are refused
    (`evertally.StateError`, and nothing changes) as soon as their sum is not the same; a run with another learning rate
    or another order needs a name of its own. Ranks of a distributed run that see parts of a batch add their sums up
    first and give `step` the same total on each.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        plan: evertally.VectorPlan,
        key: evertally.SecretKey,
        name: str,
        *,
        expected_batch_size: float | None = None,
        batches: evertally.Batches | None = None,
        adaptive_clipping: AdaptiveClipping | None = None,
        second_moments: SecondMoments | None = None,
        threads: int = 1,
        memory: str = "keep",
    ) -> None:
        if plan.series != "increments":
            raise ValueError(f'the plan\'s series is "{plan.series}": gradients need series="increments"')
        _check_batches(plan, batches, key, name)
        if expected_batch_size is None:
            if batches is None:
                raise ValueError("expected_batch_size is missing: give the declared number of examples of a batch")
            expected_batch_size = batches.expected_size
        if not expected_batch_size > 0:
            raise ValueError(f"expected_batch_size is {expected_batch_size}: give a positive number")
        # Not the base's __init__, which would make groups and a state of its own.
        self.optimizer = optimizer
        self.batches: Order | None = batches
        self.plan = plan
        self.expected_batch_size = expected_batch_size
        self._identity = (plan, key, name)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        sizes = [p.numel() for p in self._parameters]
        self._released = Released(optimizer, plan, sizes, expected_batch_size, adaptive_clipping, second_moments)
        self._vector = torch.zeros(self._released.coordinates, dtype=torch.float32)
        self._gradient = self._vector[: sum(sizes)]
        self._parts = self._gradient.split(sizes)
        size = len(self._vector)
        self._options: dict[str, Any] = dict(coordinates=size, dtype="float32", threads=threads, memory=memory)
        self.noise = evertally.VectorNoise(*self._identity, **self._options)
        self._stepping = False
        self._guard = optimizer.register_step_pre_hook(self._refuse_exact)
        self._optimizer_step_pre_hooks: dict[int, Any] = {}
        self._optimizer_step_post_hooks: dict[int, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the wrapped optimizer."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def threshold(self) -> float:
        """The length to which the gradients of the next step are clipped: the plan's norm, or what `adaptive_clipping`
        has made of earlier releases. It may be published; the rest of a `state_dict` may not."""
        return self._released.threshold

    @property
    def state(self) -> Any:
        """That of the wrapped optimizer."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the wrapped optimizer."""
        return self.optimizer.defaults

    def __repr__(self) -> str:
        return (
            f"DPFTRL({self.plan.mechanism}, step {self.noise.step} of {self.plan.horizon}, "
            f"{self.plan.guarantee})\n{self.optimizer!r}"
        )

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a DPFTRL is not pickled or copied: its noise must not go on twice; see state_dict()")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: noise covers the parameters that there were at first."""
        raise ValueError("parameters cannot be added to a private run: make the optimizer with all of them first")

    @torch.no_grad()
    def step(
        self,
        clipped_sum: Iterable[torch.Tensor] | Callable[[], Any] | None = None,
        *,
        examples: Iterable[int] | None = None,
    ) -> Any:
        """One private step. A function in the place of `clipped_sum` is a closure: it is called first, with gradients
        enabled, and leaves the samples; its result is returned.

        Without an argument it clips and sums what is in `p.grad_sample` of each parameter (a tensor with the examples
        first, or Opacus's list of such tensors) and removes it. With `clipped_sum`, one tensor for each trainable
        parameter, clipping and summing is the caller's: each example's vector over all tensors must have at most the
        plan's norm. For an empty batch give zeros: the step must be taken, with its noise.

        `examples` are the numbers of the examples. Where batches are drawn by lot they are checked, and needed with
        `clipped_sum`, which does not tell how many there are.
        """
        self._refuse_other_gradients()
        result = None
        if callable(clipped_sum):
            with torch.enable_grad():
                result = clipped_sum()
            clipped_sum = None
            self._refuse_other_gradients()  # it may have unfrozen a parameter
        self._refuse_other_examples(clipped_sum is not None, examples)
        if clipped_sum is not None:
            self._released.refuse_sums()
        sums = self._sum_of_samples() if clipped_sum is None else list(clipped_sum)
        try:
            self._gather(sums)
            self.noise.add_next(self._vector.numpy())
        except BaseException:
            # Gradients of the step before may be views of this vector: they must not show a sum without its noise.
            self._vector.zero_()
            raise
        self._released.decode(self._vector, self.noise.step)
        self._hand_out()
        self._stepping = True
        try:
            self.optimizer.step()
        finally:
            self._stepping = False
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets gradients, per-example ones too."""
        for parameter in self._parameters:
            parameter.grad_sample = None
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """State of the optimizer and of the noise, secret; for `torch.save` and `load_state_dict`."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "shapes": self._shapes(),
            "noise": torch.frombuffer(bytearray(self.noise.save()), dtype=torch.uint8),
            "clipping": self._released.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same plan, key, name and parameters; refuses others."""
        if [list(shape) for shape in state["shapes"]] != self._shapes():
            raise ValueError("the state is that of a model with other parameters: build the model as it was")
        self._released.check_state(state.get("clipping"))
        noise = evertally.VectorNoise.restore(*self._identity, state["noise"].numpy().tobytes(), **self._options)
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise = noise
        self._released.restore(state.get("clipping"))

    def _refuse_exact(self, *_: Any) -> None:
        """Before a step of the wrapped optimizer."""
        if not self._stepping:
            raise RuntimeError(
                "this optimizer is wrapped in a DPFTRL, and a step of its own would apply exact gradients: call step() "
                "of the DPFTRL"
            )

    def _refuse_other_examples(self, is_summed: bool, examples: Iterable[int] | None) -> None:
        """The plan's promise is for its own batches."""
        if self.batches is None:
            return
        step = self.noise.step + 1
        if step > self.plan.horizon:
            return  # the noise says so
        batch = [int(example) for example in self.batches.batch(step)]
        if examples is not None and sorted(int(example) for example in examples) != batch:
            raise ValueError(
                f"these are not the examples of step {step}: the plan's promise is for its own batches; take those of "
                f"batches.batch({step}), {len(batch)} examples"
            )
        if is_summed and examples is None:
            raise ValueError("clipped_sum does not tell whose sum it is: give examples=, the numbers of the batch")
        counts = {_examples(parameter) for parameter in self._parameters} - {None}
        if not is_summed and (counts - {len(batch)} or (not counts and batch)):
            found = " and ".join(str(count) for count in counts) or "no"
            raise ValueError(
                f"there are gradients of {found} examples, and the batch of step {step} has {len(batch)}: the plan's "
                f"promise is for its own batches; take batches.batch({step})"
            )

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
        if not present and self.batches is not None:
            return [None] * len(samples)  # an empty batch, which was checked
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
        if self._released.clipping is not None:
            found = self._released.encode(samples, self._vector)
        else:
            sums = iter(clip_and_sum(present, self.plan.norm))
            found = [None if sample is None else next(sums) for sample in samples]
        for parameter in self._parameters:
            parameter.grad_sample = None
        return found

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


def _examples(parameter: torch.Tensor) -> int | None:
    """Of how many examples there are gradients."""
    samples = getattr(parameter, "grad_sample", None)
    if isinstance(samples, list):
        return sum(len(sample) for sample in samples)
    return None if samples is None else len(samples)


def _check_batches(
    plan: evertally.VectorPlan, batches: evertally.Batches | None, key: evertally.SecretKey, name: str
) -> None:
    if getattr(plan, "sampled", None) is None:
        if batches is not None:
            raise ValueError("the plan is one without sampling: its batches are in a fixed order, not drawn by lot")
        return
    if batches is None:
        raise ValueError(
            "the plan's promise is for batches that are drawn by lot: give batches=evertally.Batches(plan, key, name, "
            "examples=…), and take them"
        )
    if not batches.is_of(plan, key, name):
        raise ValueError("these batches are those of another plan, key or name")
