"""An optimizer whose gradients carry the noise of a plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import evertally
import torch

from evertally.training._order import Attendance, Order, check_batches, one_at_a_time
from evertally.training.moments import AdaptiveClipping, SecondMoments
from evertally.torch._alone import refuse_complex
from evertally.torch._checks import check_scale, check_sum, refuse_copy
from evertally.torch._clipping import Released
from evertally.torch._gradients import clipped_sums, on_grid, same_number
from evertally.torch._layers import Formed
from evertally.torch._noise import RangedNoise
from evertally.torch._ranks import Ranks
from evertally.torch._restored import Restored, fingerprint
from evertally.torch._several import all_of, as_one
from evertally.torch._shards import Shards


class DPFTRL(torch.optim.Optimizer):
    """Wraps an optimizer so that its steps see only noisy sums of clipped per-example gradients.

    It is an optimizer itself, with the groups and the state of the wrapped one: schedulers accept either. A direct step
    of the wrapped optimizer is refused.

    A list of optimizers of different parameters, such as Muon for matrices and AdamW for the rest, takes its steps
    together: an example's gradient is clipped over the parameters of all, and one noise covers them in this order.

    The plan must be a plan of increments, and each `step()` uses one step of its horizon. The coordinates of the noise
    are the trainable parameters in the order of the optimizer's groups: keep model and optimizer unchanged for the
    whole run.

    `adaptive_clipping` and `second_moments` (`evertally.training.moments`) release more than the gradient, in the
    same vector and under the same guarantee. Steps then need per-example gradients; the model's tensors are the blocks.
    A wrapped `DPAdam` gets the standard deviation of the noise, and the second moments, before each of its steps.

    With `ahead` the noise of the next step is drawn in the background while its gradients are computed, and is kept in
    one additional vector of memory (`evertally.VectorNoise.draw_ahead`). Nothing else changes. `threads` is the number
    of threads that draw the noise, whose bytes do not depend on it.

    A plan with `sampling` needs its `batches`: a step then refuses a number of examples that differs from the batch,
    and other examples, if their numbers are given. For a plan without sampling,
    `batches=evertally.training.FixedBatches(…)` does the same. Without batches, a step with `examples` refuses examples
    that take part more often, or sooner again, than the plan allows.

    Impossible sums are refused before noise is added: a sum with a number that is NaN or infinite, or, if the number of
    examples is known, one that is longer than that number of gradients of the plan's norm.

    With a `group` of `torch.distributed` each rank gives the sum over **its own part of a batch's examples**, and their
    numbers. The sums are added up, each rank draws the noise of an equal share of the coordinates, and all get the same
    gradients: bit for bit the noise of one process. If parameters are sharded (`DTensor`s of
    `torch.distributed.fsdp.fully_shard`), each rank draws the noise of its shards. If one rank refuses a step, all do.

    `state_dict` holds the optimizer's state and the noise's. **Both are secret**: the state of some mechanisms is
    noise that is still in use, and anyone who has it can remove it from the gradients. A resumed run continues bit for
    bit, on any number of ranks. The noise of a step is always the same: two different sums with it reveal their exact
    difference to anyone who sees both results. So repeated steps, from an older state or by another run with the same
    name, are refused (`evertally.StateError`, and nothing changes) as soon as their sum differs; a run with another
    learning rate or another order needs its own name.
    """

    #: Makes `torch.amp.GradScaler` call `step`, which refuses it.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        plan: evertally.training.VectorPlan,
        key: evertally.SecretKey,
        name: str,
        *,
        expected_batch_size: float | None = None,
        batches: Order | None = None,
        group: Any = None,
        adaptive_clipping: AdaptiveClipping | None = None,
        second_moments: SecondMoments | None = None,
        threads: int = 1,
        memory: str = "keep",
        ahead: bool = False,
    ) -> None:
        if plan.series != "increments":
            raise ValueError(f'the plan\'s series is "{plan.series}": gradients need series="increments"')
        optimizer = as_one(optimizer)
        if any(isinstance(own, torch.optim.LBFGS) for own in all_of(optimizer)):
            raise ValueError(
                "LBFGS evaluates the exact loss several times per step: use an optimizer with one gradient per step"
            )
        check_batches(plan, batches, key, name)
        if expected_batch_size is None:
            if batches is None:
                raise ValueError("expected_batch_size is missing: give the declared number of examples of a batch")
            expected_batch_size = batches.expected_size
        if not expected_batch_size > 0:
            raise ValueError(f"expected_batch_size is {expected_batch_size}: give a positive number")
        if any(vars(own).get("__getstate__") is refuse_copy for own in all_of(optimizer)):
            raise ValueError("this optimizer is wrapped in a DPFTRL already: make a new one with its own state")
        # Does not call the base's __init__, which would make separate groups and a separate state.
        self.optimizer = optimizer
        self.batches = batches
        self.plan = plan
        self.expected_batch_size = expected_batch_size
        self._parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if len({id(p) for p in self._parameters}) < len(self._parameters):
            raise ValueError("the optimizer has a parameter twice: give each parameter once")
        refuse_complex({str(place): p for place, p in enumerate(self._parameters)})
        sizes = [p.numel() for p in self._parameters]
        self.released = Released(optimizer, plan, sizes, expected_batch_size, adaptive_clipping, second_moments)
        self.ranks = Ranks(group)
        with self.ranks.together():
            self._shards = Shards(self._parameters, self.ranks, self.released.further)
        clipping = (adaptive_clipping, second_moments)
        run = (plan.digest, key.id, name, self._shapes(), expected_batch_size, *clipping) if group is not None else ()
        self.ranks.same(run, "plan, key, name, parameters, expected_batch_size or clipping")
        with self.ranks.together():
            options = {"dtype": "float32", "threads": threads, "memory": memory}
            self.noise = RangedNoise((plan, key, name), self._shards.ranges, self._shards.total, **options)
        #: The released vector: the gradient, then further coordinates, if there are any.
        self._vector = self._shards.vector[: self._shards.total]
        self._gradient = self._vector[: sum(sizes)]
        self._parts = self._gradient.split(sizes)
        #: The sums of the further coordinates of this rank's examples: exact, and zeros between steps.
        self.further = torch.zeros(self.released.further, dtype=torch.float64, device="cpu")
        self._ahead, self._restored = ahead, Restored()
        told = batches is None and hasattr(plan, "participations")
        self._attendance = Attendance(plan) if told else None
        self._stepping, self._in_progress = False, threading.Lock()
        self._guard = optimizer.register_step_pre_hook(self._refuse_exact)
        for own in (optimizer, *all_of(optimizer)):  # a copy or a pickle would have no guard
            vars(own)["__getstate__"] = refuse_copy
        self._optimizer_step_pre_hooks: dict[int, Any] = {}
        self._optimizer_step_post_hooks: dict[int, Any] = {}

    @property
    def parameters(self) -> list[torch.Tensor]:
        """The trainable parameters, in the order of their coordinates and of the tensors of a `clipped_sum`."""
        return list(self._parameters)

    @property
    def adapts(self) -> bool:
        """Whether more than a gradient is released: an adaptive threshold or second moments."""
        return self.released.clipping is not None

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of the wrapped optimizer."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def threshold(self) -> float:
        """The length to which the gradients of the next step are clipped: the plan's norm, or the threshold that
        `adaptive_clipping` computed from earlier releases. It may be published; the rest of a `state_dict` may not."""
        return self.released.threshold

    @property
    def state(self) -> Any:
        """The state of the wrapped optimizer."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of the wrapped optimizer."""
        return self.optimizer.defaults

    def __repr__(self) -> str:
        return (
            f"DPFTRL({self.plan.mechanism}, step {self.noise.step} of {self.plan.horizon}, "
            f"{self.plan.guarantee})\n{self.optimizer!r}"
        )

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a DPFTRL is not pickled or copied: its noise must not continue twice; see state_dict()")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Raises an error: noise covers only the initial parameters."""
        raise ValueError("parameters cannot be added to a private run: make the optimizer with all of them first")

    @torch.no_grad()
    def step(
        self,
        clipped_sum: Iterable[torch.Tensor] | Callable[[], Any] | None = None,
        *,
        examples: Iterable[int] | None = None,
        scale: float = 1.0,
    ) -> Any:
        """One private step. A function given instead of `clipped_sum` is a closure: it is called first, with gradients
        enabled, and sets the samples; its result is returned.

        Without an argument, it clips and sums the samples in `p.grad_sample` of each parameter (a tensor with the
        examples along the first dimension, or Opacus's list of such tensors) and removes them. With `clipped_sum`, one
        tensor for each trainable parameter, the caller clips and sums: each example's vector over all tensors must have
        at most the plan's norm. For an empty batch give zeros: the step must be taken, with its noise.

        `examples` are the numbers of the examples. With sampled batches they are checked, and required with
        `clipped_sum`, which does not contain their number. In a group they are always required, for this rank's part:
        no example may be in two parts. With sharded parameters, `p.grad_sample` belongs to the rank's own shard, with
        all examples of the batch on each rank.

        `scale` is the factor by which the loss was multiplied, a power of two: samples are divided by it, in float32,
        before they are clipped. It must be fixed beforehand, so a step through `torch.amp.GradScaler`, whose scale
        reveals whether gradients have overflowed, is refused.
        """
        result: list[Any] = []

        def sums(numbers: list[int] | None) -> list[torch.Tensor | None]:
            check_scale(scale, self.plan.norm)
            if clipped_sum is not None and not callable(clipped_sum):
                if scale != 1:
                    raise ValueError("clipped_sum is used unchanged: divide it by the scale, and omit scale")
                return list(clipped_sum)
            # Ranks exchange the squares of the lengths next: before that, no error may occur on one rank alone.
            with self.ranks.together() if self._shards.sharded else nullcontext():
                if clipped_sum is not None:
                    with torch.enable_grad():
                        result.append(clipped_sum())
                    self._refuse_other_gradients()  # it may have unfrozen a parameter
                self._refuse_other_counts(numbers)
                samples = self._samples(known=numbers is not None or self.batches is not None)
            return self._sum_of(samples, scale)

        self.take(sums, examples, clipped_sum is not None and not callable(clipped_sum))
        return result[0] if result else None

    @torch.no_grad()
    @one_at_a_time
    def take(
        self,
        sums: Callable[[list[int] | None], Sequence[torch.Tensor | None]],
        examples: Iterable[int] | None,
        is_summed: bool = True,
    ) -> None:
        """One private step with the clipped sums that a function returns; it gets the numbers of the examples. In a
        group, an error that it raises on one rank is raised on all. A step while another one is in progress is
        refused."""
        with self.ranks.together():
            self._draw_ahead()
            if is_summed:
                self.released.refuse_sums()
            self._refuse_scaler()
            self._refuse_other_gradients()
            numbers = None if examples is None else [int(example) for example in examples]
            if numbers is None and self.ranks.group is not None:
                raise ValueError(
                    "give examples=, the numbers of this rank's part of the batch: no example may be in two parts"
                )
            if numbers is None and is_summed and self.batches is not None:
                raise ValueError("clipped_sum does not contain the examples: give examples=, the numbers of the batch")
        own_shards = self._shards.sharded and not is_summed
        if self._shards.sharded:
            self.ranks.same(own_shards, "the kind of input, sums or samples,")
        whole = self._refuse_other_examples(self.ranks.tell((self.noise.step, numbers)), own_shards)
        self.further.zero_()
        try:
            with self.ranks.together():
                made = sums(numbers)
                self._check_sums(made, own_shards)
        except BaseException:
            self.further.zero_()
            raise
        before = self.noise.step
        try:
            self._gather(made, own_shards)
            count = self._count(whole)
            with self.ranks.together():  # before noise is drawn on any rank
                if self.ranks.group is not None:
                    check_sum(self._vector, self.plan.norm, count)
            with self.ranks.together():
                try:
                    self.noise.add_next(self._vector, count)
                except evertally.StateError as problem:
                    raise self._restored.hinted(problem, before, self._parameters) from problem
            if not self._shards.sharded:
                self.ranks.collect(self._shards.vector)
        except BaseException:
            # Gradients of the previous step may be views of this vector: they must not show a sum without its noise.
            self._shards.vector.zero_()
            self.further.zero_()
            self.noise.stand_at(before)
            raise
        self.further.zero_()
        if self._attendance is not None and whole is not None:
            self._attendance.note(whole, before + 1)
        with suppress(MemoryError):  # the next step raises it
            self._draw_ahead()
        self.released.decode(self._vector, self.noise.step)
        self._hand_out()
        self._opt_called = True  # for schedulers, which warn if no step was taken
        self._stepping = True
        try:
            self.optimizer.step()
        finally:
            self._stepping = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears gradients, including per-example ones."""
        for parameter in self._parameters:
            parameter.grad_sample = None
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """State of the optimizer and of the noise, secret; for `torch.save` and `load_state_dict`."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "shapes": self._shapes(),
            "noise": self.noise.state(),
            "clipping": self.released.state(),
            "parameters": fingerprint(self._parameters),
            "attendance": [] if self._attendance is None else self._attendance.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same plan, key, name and parameters; refuses others.

        In a group each rank loads its own state, or that of any rank if the number of ranks has changed. Then the noise
        of all steps so far is drawn again."""
        with self.ranks.together():
            if [list(shape) for shape in state["shapes"]] != self._shapes():
                raise ValueError("the state belongs to a model with other parameters: build the same model as before")
            self.released.check_state(state["clipping"])
            noise = self.noise.restored(state["noise"])
        self.ranks.same((noise.step, state["clipping"]), "the step of the state, or its threshold,")
        with self.ranks.together():
            self.optimizer.load_state_dict(state["optimizer"])
        self.noise = noise
        self.released.restore(state["clipping"])
        if self._attendance is not None:
            self._attendance.restore(state["attendance"])
        self._restored = Restored(noise.step, state["parameters"])

    def _refuse_exact(self, *_: Any) -> None:
        """Runs before a step of the wrapped optimizer."""
        if not self._stepping:
            raise RuntimeError(
                "this optimizer is wrapped in a DPFTRL, and its own step would apply exact gradients: call step() of "
                "the DPFTRL"
            )

    def _refuse_scaler(self) -> None:
        """Refuses a step of a `GradScaler`, which sets these attributes and removes them afterwards."""
        found = [self.__dict__.pop(name, None) is not None for name in ("grad_scale", "found_inf")]
        if any(found):
            raise ValueError(
                "the scale of a GradScaler depends on whether gradients have overflowed, which reveals data without "
                "noise. Use bfloat16, which needs no scale; or multiply the loss by a fixed number, such as 1024, and "
                "give step(scale=1024): an example that overflows counts as zero, and the step is taken"
            )

    def _refuse_other_examples(
        self, said: list[tuple[int, list[int] | None]], all_have_all: bool
    ) -> list[int] | None:
        """Refuses other examples than those of the plan's batch, and examples that occur twice. The input is the same
        on all ranks. Returns the examples of the step, if they are known."""
        if len({step for step, _ in said}) != 1:
            raise ValueError(f"ranks are at different steps: {[step for step, _ in said]}. Load states of one step")
        if all_have_all and any(numbers != said[0][1] for _, numbers in said):
            raise ValueError("ranks with shards have different examples: each must have the samples of all of them")
        parts = [numbers for _, numbers in (said[:1] if all_have_all else said) if numbers is not None]
        numbers = sorted(number for part in parts for number in part)
        step = said[0][0] + 1
        if step > self.plan.horizon or not parts:
            return None  # the noise raises the error; or samples are counted
        if len(set(numbers)) != len(numbers):
            raise ValueError("an example occurs twice: each rank must give the sum over its own part of the batch")
        batch = None if self.batches is None else [int(example) for example in self.batches.batch(step)]
        if batch is not None and numbers != batch:
            raise ValueError(
                f"these are not the examples of step {step}: the plan's guarantee is for its own batches; use those of "
                f"batches.batch({step}), {len(batch)} examples"
            )
        if self._attendance is not None:
            self._attendance.check(numbers, step)
        return numbers

    def _count(self, numbers: list[int] | None) -> int | None:
        """The number of examples in the sum of the next step, if it is known."""
        if numbers is not None:
            return len(numbers)
        if self.batches is None or self.noise.step >= self.plan.horizon:
            return None
        return len(self.batches.batch(self.noise.step + 1))

    def _refuse_other_counts(self, numbers: list[int] | None) -> None:
        """Refuses samples of another number of examples than the step has."""
        step = self.noise.step + 1
        if step > self.plan.horizon:
            return  # the noise raises the error
        if numbers is not None:
            expected = len(numbers)
        elif self.batches is not None:
            expected = len(list(self.batches.batch(step)))
        else:
            return
        counts = {_examples(parameter) for parameter in self._parameters} - {None}
        if counts - {expected} or (not counts and expected):
            found = " and ".join(str(count) for count in counts) or "no"
            raise ValueError(
                f"there are gradients of {found} examples, but the batch of step {step} has {expected}: the plan's "
                f"guarantee is for its own batches; use batches.batch({step})"
            )

    def _refuse_other_gradients(self) -> None:
        """Refuses parameters that the noise does not cover: the optimizer would apply their exact gradients."""
        covered = {id(parameter) for parameter in self._parameters}
        for parameter in (p for group in self.optimizer.param_groups for p in group["params"]):
            if id(parameter) not in covered and (parameter.requires_grad or parameter.grad is not None):
                raise ValueError(
                    "the optimizer has a trainable parameter that was frozen or missing when DPFTRL was made: its "
                    "gradient would get no noise. Freeze and add parameters before"
                )

    def _shapes(self) -> list[list[int]]:
        return [list(parameter.shape) for parameter in self._parameters]

    def _samples(self, known: bool) -> list[torch.Tensor | None]:
        """Gradients of single examples by parameter; None for a parameter that no example reached. There may be none at
        all only if the number of examples is known."""
        samples = [_joined(getattr(parameter, "grad_sample", None)) for parameter in self._parameters]
        present = [sample for sample in samples if sample is not None]
        if not present and not known:
            raise ValueError(
                "no parameter has a grad_sample: compute per-example gradients (Opacus's GradSampleModule or "
                "torch.func) before step(), or give clipped_sum"
            )
        for sample, shape in zip(samples, self._shards.shapes):
            if sample is not None and sample.shape[1:] != shape:
                raise ValueError(
                    f"a grad_sample has shape {list(sample.shape)} for a parameter of shape {list(shape)}: "
                    "it needs an additional first dimension of examples"
                )
            if sample is not None and not sample.is_floating_point():
                raise ValueError(f"a grad_sample has the type {sample.dtype} instead of real floating-point numbers")
        if present:
            same_number(present)
        return samples

    def _sum_of(self, samples: list[torch.Tensor | None], scale: float) -> list[torch.Tensor | None]:
        """The clipped sums of the samples."""
        if self.adapts and any(sample is not None for sample in samples):
            if scale != 1:
                raise ValueError("adaptive clipping and second moments need unscaled gradients: omit scale")
            encoded, further = self.released.encode(samples)
            self.further.copy_(further)
            for parameter in self._parameters:
                parameter.grad_sample = None
            return encoded
        present = [sample for sample in samples if sample is not None]
        over = self._shards.over_all if self._shards.sharded else None
        sums = iter(clipped_sums([Formed(sample) for sample in present], self.plan.norm * scale, over))
        for parameter in self._parameters:
            parameter.grad_sample = None
        return [None if sample is None else next(sums).div_(scale) for sample in samples]

    def _check_sums(self, sums: Sequence[torch.Tensor | None], own_shards: bool) -> None:
        if len(sums) != len(self._parameters):
            raise ValueError(f"clipped_sum has {len(sums)} tensors for {len(self._parameters)} trainable parameters")
        shapes = self._shards.shapes if own_shards else [parameter.shape for parameter in self._parameters]
        for shape, total in zip(shapes, sums):
            if total is not None and total.shape != shape:
                raise ValueError(f"a clipped sum has shape {list(total.shape)} instead of {list(shape)}")

    def _gather(self, sums: Sequence[torch.Tensor | None], own_shards: bool) -> None:
        """Writes the sums into the vector to which noise is added; in a group the sums over all ranks."""
        self._gradient.zero_()
        if own_shards:
            for (first, end), total in zip(self._shards.ranges, sums):
                if total is not None:
                    self._gradient[first:end].copy_(total.reshape(-1))
            return
        if self.ranks.group is None:
            for part, total in zip(self._parts, sums):
                if total is not None:
                    part.copy_(total.reshape(-1))
            self._vector[len(self._gradient) :].copy_(self.further)
            return
        vector, norm = torch.zeros(len(self._vector), dtype=torch.float64, device="cpu"), self.plan.norm
        for part, total in zip(vector[: len(self._gradient)].split([len(part) for part in self._parts]), sums):
            if total is not None:
                part.copy_(on_grid(total, norm).reshape(-1))
        vector[len(self._gradient) :] = on_grid(self.further, norm)
        self.ranks.add(vector)
        self._vector.copy_(vector)

    def _draw_ahead(self) -> None:
        if self._ahead:
            self.noise.draw_ahead()

    def _hand_out(self) -> None:
        """Sets `p.grad`: views of the vector, or of a copy of it on each other device; for shards their own part."""
        if self._shards.sharded:
            self._shards.hand_out()
            return
        copies: dict[torch.device, Sequence[torch.Tensor]] = {}
        sizes = [len(part) for part in self._parts]
        for index, parameter in enumerate(self._parameters):
            if parameter.device not in copies:
                copies[parameter.device] = self._gradient.to(parameter.device).split(sizes)
            parameter.grad = copies[parameter.device][index].view(parameter.shape).to(parameter.dtype)


def _joined(samples: torch.Tensor | list[torch.Tensor] | None) -> torch.Tensor | None:
    """Joins the list that Opacus keeps if several backward passes contribute to one step."""
    if isinstance(samples, list):
        return torch.cat(samples) if samples else None
    return samples


def _examples(parameter: torch.Tensor) -> int | None:
    """The number of examples with gradients."""
    samples = getattr(parameter, "grad_sample", None)
    if isinstance(samples, list):
        return sum(len(sample) for sample in samples)
    return None if samples is None else len(samples)
