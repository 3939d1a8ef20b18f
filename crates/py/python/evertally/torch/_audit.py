"""Audits of training runs with PyTorch: canaries in the model, the data and the optimizer of a run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import evertally
import numpy as np
import torch
from evertally.training.canaries import AuditReport, Order, TrainingAudit

from evertally.torch._run import PrivateRun, make_private


class RunAudit:
    """Canaries for your own training loop: a `module`, a `dataset` and parameters that replace the real ones, and an
    observation of every step of the optimizer.

        audit = et.torch.RunAudit(model, loss, dataset, plan)
        optimizer = torch.optim.SGD(audit.module.parameters(), lr=0.1)
        batches = et.training.Batches(plan, key, "audit", examples=len(audit.dataset))
        audit.watch(optimizer, batches, expected_batch_size=batches.expected_size)
        ...                       # the loop as it is, with audit.module, audit.dataset and this optimizer
        print(audit.report())

    The module has a few additional parameters, and a special output for canaries. It recognizes canaries by their
    inputs, which must reach the module as the data set returns them (augmentation and changes of type in between hide
    them, and the report then says that canaries are not seen). Everything else in the loop stays the same: its
    per-example gradients, clipping, sums and noise. The audit observes the gradients with which the wrapped optimizer
    moves the canaries' parameters.

    Parameters
    ----------
    module, loss
        The model, and the loss of an output and a target, for batches of one example. The model is not copied.
    dataset
        An object with a length, and pairs of an input (a tensor) and a target. Canaries get the target of its first
        example.
    canaries, tensors, steps, significance, covariance, seed
        As in :class:`evertally.training.canaries.TrainingAudit`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., torch.Tensor],
        dataset: Any,
        plan: evertally.training.VectorPlan,
        *,
        canaries: int = 100,
        tensors: int = 4,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.plan = plan
        self._options: dict[str, Any] = {"tensors": tensors, "seed": _seed(seed), **options}
        # The same seed as the audit that watches, and so the same coins.
        drawn = TrainingAudit(plan, canaries, **self._options, batches=_Nobody(), numbers=np.arange(2 * canaries))
        self._options["covariance"] = drawn.covariance
        example, target = dataset[0]
        example = torch.as_tensor(example, device=getattr(example, "device", "cpu"))
        inputs = _inputs(example, dataset, 2 * canaries).to(example.device)
        lengths = drawn.directions().sum(axis=2).reshape(-1) / tensors
        self.module = CanaryModule(module, inputs, torch.from_numpy(lengths).to(torch.float32), tensors)
        self.module.scale_to(loss, torch.as_tensor(target, device=self.module.lengths.device))
        self.dataset = _WithCanaries(dataset, inputs, target)
        self.audit: TrainingAudit | None = None
        self._canaries, self._steps = canaries, 0

    def watch(self, optimizer: torch.optim.Optimizer, batches: Order, *, expected_batch_size: float) -> None:
        """Observes every step of the optimizer that moves the parameters; do not pass an optimizer that wraps it.
        `batches` has the examples of each step, and gradients are sums divided by `expected_batch_size`."""
        moved = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if any(id(p) not in moved for p in self.module.canaries):
            raise ValueError("the optimizer lacks the canaries' parameters: create it with audit.module.parameters()")
        self.audit = TrainingAudit(
            self.plan, self._canaries, **self._options, batches=batches, numbers=self.dataset.numbers
        )
        self._expected = expected_batch_size
        self._hook = optimizer.register_step_pre_hook(self._look)

    @property
    def refuted(self) -> bool:
        """Whether the evidence has sufficed: the run may then stop."""
        return self.audit is not None and self.audit.refuted

    def report(self, **options: Any) -> AuditReport:
        """The findings so far; see :meth:`evertally.training.canaries.TrainingAudit.report`."""
        if self.audit is None:
            raise RuntimeError("nothing was watched: call watch() before the first step")
        return self.audit.report(**options)

    def _look(self, *_: Any) -> None:
        assert self.audit is not None
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.module.canaries]
        released = torch.stack([g.detach().to("cpu", torch.float64) for g in gradients]) * self._expected
        self._steps += 1
        self.audit.observe(self._steps, released.numpy())


class AuditedRun:
    """A private run with canaries, made by `audit_run`: its `loader` and `step` are those of a :class:`PrivateRun`."""

    def __init__(self, run: PrivateRun, audit: RunAudit) -> None:
        self.run, self.audit, self.loader = run, audit, run.loader

    @property
    def refuted(self) -> bool:
        """Whether the evidence has sufficed: the run may then stop."""
        return self.audit.refuted

    def step(self, inputs: Any, targets: Any, examples: Iterable[int]) -> bool:
        """A step of the run; returns whether the evidence has sufficed."""
        self.run.step(inputs, targets, examples)
        return self.audit.refuted

    def report(self, **options: Any) -> AuditReport:
        """The findings so far; see :meth:`evertally.training.canaries.TrainingAudit.report`."""
        return self.audit.report(**options)


def audit_run(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    dataset: Any,
    plan: evertally.training.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    batch_size: int | None = None,
    canaries: int = 100,
    tensors: int = 4,
    steps: int | None = None,
    significance: float = 0.01,
    seed: int | None = None,
    **options: Any,
) -> AuditedRun:
    """As `make_private`, with canaries in the data: a run that is audited for keeping its plan.

        run = et.torch.audit_run(model, loss, optimizer, dataset, plan, key, "audit 1")
        for batch in run.loader:
            if run.step(*batch):
                break             # the evidence suffices
        print(run.report())

    **Use a separate key**, and discard model and optimizer afterwards: the optimizer gets the canaries' parameters, and
    the resulting model has seen their gradients. Data and batches are those of a run with two additional examples for
    each canary. `options` go to the `DataLoader`; see :class:`RunAudit` for the other arguments.
    """
    if options.get("adaptive_clipping") or options.get("second_moments"):
        raise ValueError("an adaptive threshold changes the contribution of canaries: audit the run with a fixed one")
    audit = RunAudit(
        module,
        loss,
        dataset,
        plan,
        canaries=canaries,
        tensors=tensors,
        seed=seed,
        steps=steps,
        significance=significance,
    )
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer.add_param_group({"params": list(audit.module.canaries)})
        watched = optimizer
    else:
        watched = torch.optim.SGD(list(audit.module.canaries), lr=0.0)
        optimizer = [*optimizer, watched]
    run = make_private(audit.module, loss, optimizer, audit.dataset, plan, key, name, batch_size=batch_size, **options)
    batches = run.optimizer.batches
    assert batches is not None
    audit.watch(watched, batches, expected_batch_size=run.optimizer.expected_batch_size)
    return AuditedRun(run, audit)


class CanaryModule(torch.nn.Module):
    """A module with the canaries' parameters. Examples with the input of a canary get an output whose gradient lies
    only in these parameters; all others get the module's own output, whose gradient is zero there."""

    inputs: torch.Tensor
    lengths: torch.Tensor

    def __init__(self, module: torch.nn.Module, inputs: torch.Tensor, lengths: torch.Tensor, tensors: int) -> None:
        super().__init__()
        self.inner = module
        device = next((parameter.device for parameter in module.parameters()), inputs.device)
        self.push = _Push(len(inputs) // 2, tensors, device)
        self.register_buffer("inputs", inputs.to(device), persistent=False)
        self.register_buffer("lengths", lengths.to(device), persistent=False)

    @property
    def canaries(self) -> list[torch.nn.Parameter]:
        """The canaries' parameters: in each of them one coordinate for each canary."""
        return list(self.push.parameters())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The module's output, replaced for canaries."""
        output = self.inner(inputs)
        known = (inputs.unsqueeze(1) == self.inputs.unsqueeze(0)).flatten(2).all(dim=2)
        # A canary and its decoy have the same coordinates.
        push = self.push((known * self.lengths).unflatten(1, (-1, 2)).sum(dim=2)).to(output.dtype)
        shape = (-1,) + (1,) * (output.dim() - 1)
        others = torch.zeros_like(output).reshape(len(output), -1)[:, 1:]
        pushed = torch.cat([push.unsqueeze(1), others], dim=1).reshape(output.shape)
        return torch.where(known.any(dim=1).reshape(shape), pushed, output)

    def scale_to(self, loss: Callable[..., torch.Tensor], target: torch.Tensor) -> None:
        """Scales the gradients of canaries to their intended lengths, for any loss."""
        one = self.inputs[1:2]
        with torch.enable_grad():
            output = self(one)
            (gradient,) = torch.autograd.grad(loss(output, target.unsqueeze(0)).sum(), self.canaries[:1])
        slope = float(gradient[0]) / float(self.lengths[1])
        if not 1e-6 < abs(slope) < 1e6:
            raise ValueError(
                f"the loss of a canary has a slope of {slope} in its output: the first example of the data set must "
                "have a loss that changes with its output near zero"
            )
        self.lengths /= slope


class _Push(torch.nn.Module):
    """A number for each example: always zero, whatever the optimizer does with the parameters. Only its gradient
    counts: it is that of a canary or a decoy. A separate module, for tools that collect per-example gradients by
    module."""

    def __init__(self, canaries: int, tensors: int, device: torch.device) -> None:
        super().__init__()
        for number in range(tensors):
            self.register_parameter(f"canaries{number}", torch.nn.Parameter(torch.zeros(canaries, device=device)))

    def forward(self, lengths: torch.Tensor) -> torch.Tensor:
        """The numbers of a batch, from the lengths of its gradients: examples, canaries."""
        moved = torch.stack([parameter - parameter.detach() for parameter in self.parameters()]).sum(dim=0)
        return (lengths * moved).sum(dim=1)


class _WithCanaries(torch.utils.data.Dataset[Any]):
    """The data set with pairs of canaries and decoys spread evenly among the other examples."""

    def __init__(self, dataset: Any, inputs: torch.Tensor, target: Any) -> None:
        self._dataset, self._inputs, self._target = dataset, inputs, target
        total, pairs = len(dataset) + len(inputs), len(inputs) // 2
        first = np.arange(pairs) * total // pairs
        self.numbers = np.stack([first, first + 1], axis=1)
        self._place = {int(number): place for place, number in enumerate(self.numbers.reshape(-1))}
        self._others = np.setdiff1d(np.arange(total), self.numbers.reshape(-1))
        self._index = np.full(total, -1)
        self._index[self._others] = np.arange(len(dataset))

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        place = self._place.get(int(number))
        if place is not None:
            return self._inputs[place], copy.copy(self._target)
        return self._dataset[int(self._index[number])]


class _Nobody:
    """An order in which no example takes part."""

    def batch(self, step: int) -> Iterable[int]:
        """The examples of a step: none."""
        return ()


def _seed(seed: int | None) -> int:
    return int.from_bytes(np.random.SeedSequence().generate_state(4).tobytes(), "little") if seed is None else seed


def _inputs(example: torch.Tensor, dataset: Any, count: int) -> torch.Tensor:
    """Inputs that no other example has: noise, or for integers mixtures of the inputs of the first examples."""
    rng = np.random.default_rng(1)
    if example.is_floating_point():
        drawn = torch.from_numpy(rng.standard_normal((count, *example.shape))).to(example.dtype)
    else:
        first = [torch.as_tensor(dataset[i][0], device=example.device) for i in range(min(len(dataset), 64))]
        some = torch.stack(first).reshape(-1)
        drawn = some[torch.from_numpy(rng.integers(0, len(some), (count, *example.shape)))]
    if len(torch.unique(drawn.reshape(count, -1), dim=0)) < count:
        raise ValueError(
            "inputs are so short that canaries cannot be distinguished from each other: audit with fewer canaries"
        )
    return drawn
