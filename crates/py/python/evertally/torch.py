"""Private training with PyTorch: any optimizer, with noise in its gradients that a plan decides on.

    import evertally as et
    import evertally.torch

    ways = et.plan_training(len(dataset), 64, epochs=10, epsilon=2.0, delta=1e-5)
    run = et.torch.make_private(model, torch.nn.functional.cross_entropy, optimizer, dataset, ways.plan, key, "run 1")
    for inputs, targets, examples in run.loader:
        run.step(inputs, targets, examples)

`make_private` gives the loader whose batches the plan is made for: drawn by lot from the key (`evertally.Batches`), or
in one order for all epochs. Per-example gradients are those of `torch.func`. Where they come from elsewhere, such as
Opacus, wrap the optimizer alone:

    private = et.torch.DPFTRL(optimizer, plan, key, "run 1", batches=batches)
    for batch in batches:
        ...                 # leaves per-example gradients in p.grad_sample, as Opacus does
        private.step()      # clip, sum, add noise, divide, optimizer.step()
        private.zero_grad()

The gradient of a step is a vector over all parameters, one after the other in the optimizer's order. Each example's
vector is clipped to the plan's norm, the vectors are summed, the increment of the plan's noise is added, and the
result is divided by the expected batch size. Whatever the optimizer makes of it is post-processing, and as private
as the plan says. With the plan's mechanism `input` this is DP-SGD; with the others it is DP-FTRL, also called DP-SGD
with correlated noise (Kairouz and others 2021, Denisov and others 2022).

Refused, before anything changes: batches other than the plan's, a step of the wrapped optimizer on exact gradients,
batch normalization in `make_private`, noise that was given out for another sum. What only the caller can see to:
without `sampled` in the plan, that no example takes part in more steps than its `participations`, nor sooner than its
`separation`; that per-example gradients depend on one example each; that metrics and early stopping do not read private
data.

The noise is made on the CPU. Parameters there that are float32 get gradients that are views of one vector, with no
copy. For others, the vector is copied to their device once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import evertally

try:
    import torch
except ImportError as missing:
    raise ImportError("evertally.torch needs PyTorch: pip install torch") from missing

__all__ = ["DPFTRL", "PrivateRun", "clip_and_sum", "grad_samples", "make_private"]

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
    # Below the normal numbers float32 rounds by far more than SHRINK has room for: such an example counts as zero.
    factors = torch.where(finite & (factors >= 2.0**-126), factors, 0.0).to(torch.float32)
    sums = []
    for tensor, row in zip(grad_samples, rows):
        # A product of its own, not a matrix product: those may round harder than float32 (TF32).
        clipped = torch.where(finite.to(row.device)[:, None], row, 0.0) * factors.to(row.device)[:, None]
        sums.append(clipped.sum(dim=0, dtype=torch.float32).view(tensor.shape[1:]))
    return sums


class DPFTRL(torch.optim.Optimizer):
    """Wraps an optimizer so that its steps see only noisy sums of clipped per-example gradients.

    It is an optimizer itself, with the groups and the state of the wrapped one: schedulers take either. A step of the
    wrapped one by itself is refused.

    The plan must be one of increments, and needs one step of its horizon for each `step()`. The coordinates of the
    noise are the trainable parameters in the order of the optimizer's groups: keep model and optimizer as they are
    for the whole run.

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
        self.batches: evertally.Batches | _Fixed | None = batches
        self.plan = plan
        self.expected_batch_size = expected_batch_size
        self._identity = (plan, key, name)
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        sizes = [p.numel() for p in self._parameters]
        self._gradient = torch.zeros(sum(sizes), dtype=torch.float32)
        self._parts = self._gradient.split(sizes)
        self._options = {"coordinates": sum(sizes), "dtype": "float32", "threads": threads, "memory": memory}
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
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same plan, key, name and parameters; refuses others."""
        if [list(shape) for shape in state["shapes"]] != self._shapes():
            raise ValueError("the state is that of a model with other parameters: build the model as it was")
        noise = evertally.VectorNoise.restore(*self._identity, state["noise"].numpy().tobytes(), **self._options)
        self.optimizer.load_state_dict(state["optimizer"])
        self.noise = noise

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


def grad_samples(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    inputs: Any,
    targets: Any,
    *,
    accumulate: bool = False,
) -> torch.Tensor:
    """Leaves the gradient of each example's own loss in `p.grad_sample` of every trainable parameter, by `torch.func`;
    returns the losses, one for each example.

    `loss` takes the module's output for a batch of one example and its target, such as
    `torch.nn.functional.cross_entropy`. With `accumulate`, what is there already stays, as the first part of the same
    batch. Batch normalization mixes examples, and is refused.
    """
    _refuse_mixing(module)
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    others = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    others |= {name: buffer.detach() for name, buffer in module.named_buffers()}

    def of_one(values: dict[str, torch.Tensor], one: Any, target: Any) -> torch.Tensor:
        output = torch.func.functional_call(module, {**others, **values}, (one.unsqueeze(0),))
        return loss(output, target.unsqueeze(0))

    if len(inputs) == 0:
        for parameter in trained.values() if not accumulate else ():
            parameter.grad_sample = None
        return torch.zeros(0)
    gradients = torch.func.vmap(torch.func.grad_and_value(of_one), in_dims=(None, 0, 0), randomness="different")
    samples, losses = gradients({name: p.detach() for name, p in trained.items()}, inputs, targets)
    for name, parameter in trained.items():
        before = getattr(parameter, "grad_sample", None) if accumulate else None
        parameter.grad_sample = samples[name] if before is None else torch.cat([before, samples[name]])
    return losses.detach()


def _refuse_mixing(module: torch.nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"`{name or type(part).__name__}` is batch normalization, which mixes examples: their gradients have "
                "no bound of their own. Use GroupNorm or LayerNorm"
            )


class _Fixed:
    """The same batches in the same order in every epoch."""

    def __init__(self, examples: int, size: int) -> None:
        self._starts = examples // size
        self._size = size

    def batch(self, step: int) -> Iterable[int]:
        """The examples of a step, from 1."""
        first = (step - 1) % self._starts * self._size
        return range(first, first + self._size)


class _Remaining:
    """The batches of the steps that are left: those after the last that the noise has given out."""

    def __init__(self, private: DPFTRL) -> None:
        self._private = private

    def __len__(self) -> int:
        return self._private.plan.horizon - self._private.noise.step

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self._private.noise.step + 1, self._private.plan.horizon + 1):
            assert self._private.batches is not None
            yield [int(example) for example in self._private.batches.batch(step)]


class _Numbered(torch.utils.data.Dataset):
    """Examples with their numbers."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> tuple[int, Any]:
        return number, self._dataset[number]


class PrivateRun:
    """A model, its private optimizer and the loader of the plan's batches, made by `make_private`.

    The loader gives inputs, targets and numbers of the examples of the steps that are left: after a `load_state_dict`
    of the `optimizer`, a loop over it goes on where the run was.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., torch.Tensor],
        optimizer: DPFTRL,
        loader: torch.utils.data.DataLoader[Any],
    ) -> None:
        self.module, self.loss, self.optimizer, self.loader = module, loss, optimizer, loader

    def step(self, inputs: Any, targets: Any, examples: Iterable[int]) -> None:
        """One step of the run on the loader's batch: per-example gradients, and a step of the optimizer. Other examples
        than those of the step are refused."""
        grad_samples(self.module, self.loss, inputs, targets)
        try:
            self.optimizer.step(examples=examples)
        finally:
            self.optimizer.zero_grad()

    def epsilon_at(self, delta: float) -> float:
        """The least ε of (ε, δ)-differential privacy that the whole run has at this δ."""
        return self.optimizer.plan.guarantee.epsilon_at(delta)


def make_private(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    plan: evertally.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    batch_size: int | None = None,
    **options: Any,
) -> PrivateRun:
    """Wraps model, optimizer and data in one call: a run whose loader gives the batches that the plan is made for.

    `dataset` has a length, and pairs of an input and a target. Where the plan has `sampled`, batches are drawn by lot
    from the key. Otherwise they are in the order of the data set, `batch_size` at a time, the same in every epoch; what
    is left at its end takes no part. `options` go to the `DataLoader`.
    """
    _refuse_mixing(module)
    examples = len(dataset)
    if plan.sampled is not None:
        if batch_size is not None:
            raise ValueError("the plan draws batches by lot: leave batch_size away")
        batches = evertally.Batches(plan, key, name, examples=examples)
        private = DPFTRL(optimizer, plan, key, name, batches=batches)
    else:
        if batch_size is None:
            raise ValueError("batch_size is missing: the plan is one of batches in a fixed order")
        epochs = -(-plan.horizon // (examples // batch_size)) if 0 < batch_size <= examples else 0
        if not epochs or epochs > plan.participations or (examples // batch_size < plan.separation and epochs > 1):
            raise ValueError(
                f"{plan.horizon} steps of {batch_size} examples of {examples} are more often or nearer than the plan "
                f"allows: {plan.participations} times, {plan.separation} steps apart"
            )
        private = DPFTRL(optimizer, plan, key, name, expected_batch_size=batch_size)
        private.batches = _Fixed(examples, batch_size)
    collate = _collated(dataset, options.pop("collate_fn", None) or torch.utils.data.default_collate)
    sampler: Any = _Remaining(private)
    loader = torch.utils.data.DataLoader(_Numbered(dataset), batch_sampler=sampler, collate_fn=collate, **options)
    return PrivateRun(module, loss, private, loader)


def _collated(dataset: Any, collate_pairs: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Inputs, targets and numbers; empty batches have the shapes of an example."""

    def collate(items: list[tuple[int, Any]]) -> Any:
        numbers = torch.tensor([number for number, _ in items], dtype=torch.long)
        inputs, targets = collate_pairs([pair for _, pair in items] or [dataset[0]])
        return (inputs, targets, numbers) if items else (inputs[:0], targets[:0], numbers)

    return collate
