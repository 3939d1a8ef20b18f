"""Model, optimizer and data of a run, wrapped in one call."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import evertally
import evertally.training
import torch

from evertally.training._order import one_at_a_time, order_of, steps_per_epoch
from evertally.training.moments import AdaptiveClipping, SecondMoments
from evertally.torch._checks import check_scale
from evertally.torch._alone import refuse_mixing
from evertally.torch._choice import choose
from evertally.torch._collate import Apart, random_numbers_kept
from evertally.torch._draws import Draws, kept, seed_all
from evertally.torch._epochs import Epoch, epochs
from evertally.torch._examples import count, moved, own_loss, part, plain
from evertally.torch._generators import unmoved
from evertally.torch._ghost import NotFollowed, clipped_and_losses, weighed_and_losses
from evertally.torch._gradients import added_up, clip_and_sum, stored_samples
from evertally.torch._optimizer import DPFTRL
from evertally.torch._ranks import part_of
from evertally.torch._several import as_one
from evertally.torch._state import advance, restored
from evertally.torch._tables import Rates, Tables
from evertally.torch._users import ByUser, LossOfUser, OfUser
from evertally.torch._whole import is_sharded, whole


class PrivateRun:
    """A model, its private optimizer and the loader of the plan's batches, made by `make_private`.

    The loader yields inputs, targets and numbers of the examples of the remaining steps: after a `load_state_dict` of
    the `optimizer`, a loop over it continues where the run stopped. `clipping` is the clipping of the run, and
    `clipping_reason` explains a choice that was made by `clipping="auto"`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loss: Callable[..., torch.Tensor] | None,
        optimizer: DPFTRL,
        loader: torch.utils.data.DataLoader[Any],
        clipping: str = "samples",
        microbatch: int | None = None,
        scale: float = 1.0,
        tables: Tables | None = None,
        clipping_reason: str = "",
        draws: Draws | None = None,
        is_auto: bool = False,
    ) -> None:
        self._draws, self._is_auto, self._in_progress = draws, is_auto, threading.Lock()
        self.tables, self.clipping_reason = tables, clipping_reason
        self._losses: list[torch.Tensor] = []
        #: The optimizer's parameters; in a step those that were gathered from shards.
        self._parameters = optimizer.parameters
        devices = {parameter.device for parameter in module.parameters()}
        self._device = devices.pop() if len(devices) == 1 else None
        self.module, self.loss, self.optimizer, self.loader = module, loss or own_loss, optimizer, loader
        self.clipping, self.microbatch, self.scale = clipping, microbatch, scale

    @one_at_a_time
    def step(self, inputs: Any, targets: Any, examples: Iterable[int]) -> None:
        """One step of the run on the loader's batch: per-example gradients, and a step of the optimizer. Examples of
        another step are refused, and so is a step while another one is in progress. A batch on another device than the
        module is moved to it.

        Module, loss and data set may draw from the default generators of PyTorch, NumPy and Python, which have a seed
        for each example or step, but not from generators that they keep themselves, whose draws would depend on the
        other examples: those are refused, unless they were made too recently to be found."""
        if self._device is not None:
            inputs, targets = moved(inputs, self._device), moved(targets, self._device)
        self._losses = []

        def sums(numbers: list[int] | None) -> list[torch.Tensor]:
            assert numbers is not None
            # First, because all ranks gather sharded parameters together.
            with whole(self.module, self.optimizer.parameters) as self._parameters:
                found, targets_of = count(inputs), count(targets)
                if not found == targets_of == len(numbers):
                    raise ValueError(
                        f"there are gradients of {found} examples with {targets_of} targets, and numbers of "
                        f"{len(numbers)}: pass the values of the loader"
                    )
                return self._sums_of_all(inputs, targets, numbers)

        if self.tables is None:
            self.optimizer.take(sums, examples, is_summed=not self.optimizer.adapts)
        else:
            self._step_with_tables(self.tables, sums, inputs, examples)
        advance(self.module)

    def _step_with_tables(self, tables: Tables, sums: Any, inputs: Any, examples: Iterable[int]) -> None:
        """Takes the tables' steps last, when nothing can be refused any more."""
        of_tables: list[torch.Tensor] = []

        def others(numbers: list[int] | None) -> list[torch.Tensor]:
            with self._drawing(numbers), tables.of_step(self.module, inputs):
                with self.optimizer.ranks.together():
                    made = sums(numbers)
                few = len(tables.layers)
                of_tables.extend(tables.of_all_ranks(made[len(made) - few :], self.optimizer.plan.norm))
                tables.check(of_tables)
            return made[: len(made) - few]

        with self.optimizer.ranks.together():
            tables.check_step(self.optimizer.noise.step)
        self.optimizer.take(others, examples)
        tables.descend(of_tables)

    def _sums_of_all(self, inputs: Any, targets: Any, numbers: list[int] | None = None) -> list[torch.Tensor]:
        def of_part(which: slice) -> list[torch.Tensor]:
            own = None if numbers is None else numbers[which]
            some = part(inputs, which), part(targets, which)
            with self._drawing(own), restored(getattr(self.loss, "__self__", self.loss)):
                try:
                    return self._sums(*some)
                except NotFollowed as problem:
                    if not self._is_auto:
                        raise
                    self.clipping, self.clipping_reason = "samples", str(problem)
                    return self._sums(*some)

        if self.microbatch is None or not count(inputs):
            made = of_part(slice(None))
        else:
            norm, size = self.optimizer.plan.norm, self.microbatch
            some = (slice(first, first + size) for first in range(0, count(inputs), size))
            made = added_up(map(of_part, some), norm)
        if self.optimizer.adapts:
            self.optimizer.further.copy_(made.pop())
        return made

    def _drawing(self, numbers: list[int] | None) -> AbstractContextManager[None]:
        """Inside, the module draws the random numbers of these examples in the next step."""
        return nullcontext() if self._draws is None else self._draws.of_step(self.optimizer.noise.step + 1, numbers)

    def _sums(self, inputs: Any, targets: Any) -> list[torch.Tensor]:
        """Clipped sums of some examples, followed by those of their further coordinates, if there are any. Gradients
        are multiplied by the scale, and so is the norm to which they are clipped."""
        parameters, norm = self._parameters, self.optimizer.plan.norm * self.scale

        def loss(output: Any, target: Any) -> torch.Tensor:
            return self.loss(output, target) * self.scale

        if self.optimizer.adapts:
            return self._encoded(inputs, targets)
        if self.clipping == "ghost":
            weights = self.tables.weights if self.tables else []
            sums, losses = clipped_and_losses(
                self.module, loss, (inputs, targets), norm, parameters + weights, sparse=weights
            )
            self._losses.append(losses / self.scale)
        else:
            samples = self._samples(loss, inputs, targets, self.scale)
            present = [sample for sample in samples if sample is not None]
            sums = self._completed(samples, iter(clip_and_sum(present, norm) if present else []))
        return [total.div_(self.scale) for total in sums]

    def _encoded(self, inputs: Any, targets: Any) -> list[torch.Tensor]:
        """The same if more than gradients is released."""
        further = torch.zeros_like(self.optimizer.further)
        if self.clipping == "ghost":
            weigh, scale = self.optimizer.released.weighing(further)
            batch = (inputs, targets)
            sums, losses = weighed_and_losses(self.module, self.loss, batch, weigh, self._parameters)
            self._losses.append(losses)
            return [*(total.mul_(scale) for total in sums), further]
        samples = self._samples(self.loss, inputs, targets, 1.0)
        encoded: list[torch.Tensor | None] = samples
        if any(sample is not None for sample in samples):
            encoded, further = self.optimizer.released.encode(samples)
        return [*self._completed(samples, (total for total in encoded if total is not None)), further]

    def _samples(self, loss: Any, inputs: Any, targets: Any, scale: float) -> list[torch.Tensor | None]:
        """Gradients of single examples by parameter; None for a parameter that no example reached."""
        try:
            self._losses.append(stored_samples(self.module, loss, inputs, targets) / scale)
            return [getattr(parameter, "grad_sample", None) for parameter in self._parameters]
        finally:
            for parameter in self.module.parameters():
                parameter.grad_sample = None

    def _completed(self, samples: list[torch.Tensor | None], sums: Iterator[torch.Tensor]) -> list[torch.Tensor]:
        """The sums, with zeros for parameters that no example reached."""
        return [
            torch.zeros_like(parameter, dtype=torch.float32) if sample is None else next(sums)
            for parameter, sample in zip(self._parameters, samples)
        ]

    def epochs(self) -> Iterator[tuple[int, Epoch]]:
        """The epochs of the remaining steps: the number of each, from 1, and its batches, for `step`. If batches are
        sampled, an epoch has the steps in which an example takes part once on average."""
        batches, plan = self.optimizer.batches, self.optimizer.plan
        assert batches is not None
        return epochs(self.loader, plan.horizon, steps_per_epoch(batches), lambda: self.optimizer.noise.step)

    def secret_loss(self) -> float:
        """The mean loss of the examples of the last step, before it was taken; NaN if there were none.

        **It is secret**: it follows from private data, without noise. Do not publish it, nor choose by it when to stop,
        a learning rate, or a model. In a group it is the mean of this process's part."""
        losses = [each.detach().reshape(-1).double().cpu() for each in self._losses if len(each)]
        return float(torch.cat(losses).mean()) if losses else math.nan

    def secret_losses(self, batches: Iterable[Any]) -> list[float]:
        """Takes a step with each of the loader's batches, such as those of an epoch, and returns the `secret_loss` of
        each: **they are secret**, too."""
        losses = []
        for inputs, targets, examples in batches:
            self.step(inputs, targets, examples)
            losses.append(self.secret_loss())
        return losses

    def catch_up(self) -> None:
        """Gives all rows of tables the noise that they have missed: after that the module may be published in any way.
        Does nothing without tables."""
        if self.tables:
            self.tables.catch_up()

    def state_dict(self) -> dict[str, Any]:
        """The state of module, optimizer and noise, for `load_state_dict`. It is secret, like the optimizer's, and rows
        of tables may lack noise. To publish the model, use `module.state_dict()`.

        With tables, calls of the module, copies and its `state_dict()` change the run: a run that resumes from an
        earlier state must repeat them. So take the state last."""
        if not self.tables:
            return {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict(), "tables": []}
        self.tables.check_step(self.optimizer.noise.step)
        module, caught_up = self.tables.module_state(self.module), self.tables.caught_up
        of_tables = {"tables": self.tables.state(), "caught_up": caught_up}
        return {"module": module, "optimizer": self.optimizer.state_dict(), **of_tables}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a `state_dict` of the same plan, key, name, module and tables; refuses others."""
        own = {name: value.shape for name, value in self.module.named_parameters(remove_duplicate=False)}
        if any(name not in state["module"] or state["module"][name].shape != shape for name, shape in own.items()):
            raise ValueError("the state belongs to a module with other parameters: build the same module as before")
        noises = self.tables.restored(state["tables"], state["optimizer"]["noise"]["step"]) if self.tables else []
        self.optimizer.load_state_dict(state["optimizer"])
        if self.tables:
            self.tables.load(self.module, state["module"], noises, state["caught_up"])
        else:
            self.module.load_state_dict(state["module"])

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε for which the whole run is (ε, δ)-differentially private."""
        return self.optimizer.plan.guarantee.epsilon_at(delta)


def make_private(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    dataset: Any,
    plan: evertally.training.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    batch_size: int | None = None,
    clipping: str = "auto",
    microbatch: int | None = None,
    scale: float = 1.0,
    group: Any = None,
    tables: Mapping[torch.nn.Embedding, Rates] | None = None,
    adaptive_clipping: AdaptiveClipping | None = None,
    second_moments: SecondMoments | None = None,
    ahead: bool = False,
    threads: int = 1,
    users: Iterable[Hashable] | None = None,
    examples_per_user: int | None = None,
    population: int | None = None,
    **options: Any,
) -> PrivateRun:
    """Wraps model, optimizer and data in one call: a run whose loader yields the plan's batches.

    `dataset` has a length, and pairs of an input and a target. Examples may also be mappings, as in data sets of
    Hugging Face: the module gets them as keyword arguments, and the loss gets the module's output and the batch. With
    `loss=None` the loss is that of the module's output, which models of Transformers compute from `labels`.

    If the plan has `sampling`, batches are sampled with the key. Otherwise they follow the order of the data set,
    `batch_size` at a time, the same in every epoch; examples left over at its end are not used. `options` go to the
    `DataLoader`; `adaptive_clipping`, `second_moments`, `ahead` and
    `threads` to the :class:`DPFTRL`. A `collate_fn` in the options must return an example of a batch as it returns the
    example alone, and is refused otherwise: pad to a fixed length.

    Several optimizers of different parameters, such as Muon for matrices and AdamW for the rest, are given as a list.
    An example's gradient is clipped over the parameters of all.

    `clipping="ghost"` needs far less memory for large models, and usually less time: see `clipped_gradients`. With
    `"samples"` the gradients of all examples exist at once. `"auto"` is ghost clipping if the module has layers for it;
    `run.clipping` and `run.clipping_reason` report the choice. `microbatch` is the number of examples whose gradients
    are computed at a time: it needs less memory, and the sums are the same except for their last bits. `scale`, a power
    of two, multiplies the loss, for gradients in float16; samples are divided by it before they are clipped.

    With `users`, the user of each example, the privacy unit is a user with all examples: plan for the number of users.
    A user is a text or a whole number; 5 and "5" are the same. Batches consist of users, and the gradient of the mean
    loss of a user's examples is clipped as a whole. The first `examples_per_user` examples of a user are used; memory
    is that of as many examples for each user. `run.module` then contains the module as `module`.

    Users are numbered in the order of a hash of their names, so another user moves the number of a user by at most
    one. With `population`, the number of users in all, `users` are their numbers, from 0: nobody's number moves, and a
    user without examples takes part with a gradient of zero. Batches in a fixed order, cyclic Poisson sampling and
    per-epoch random allocation need it if a user may be added or removed.

    `tables` are `Embedding` layers of which a batch uses few rows, each with its learning rate, or one for each step.
    When a row is used, it gets the noise of the steps that it has missed; noise is never added to the whole table at
    once (see `evertally.training.RowNoise`). Their weights do not belong to the optimizer: they take plain steps of
    gradient descent. Calls of the module and its `state_dict()` return rows with all their noise; before you read the
    weights directly, call `catch_up()`.

    With a `group` of `torch.distributed` the loader of each rank yields its own part of each batch, and all ranks get
    the same gradients. With `microbatch`, they also equal those of one process bit for bit, for any number of ranks. A
    module of `torch.distributed.fsdp.fully_shard` keeps its shards, and so does the optimizer; while gradients are
    computed each rank has all parameters. The module's `state_dict()` has shards, too.
    """
    extras: dict[str, Any] = {"adaptive_clipping": adaptive_clipping, "second_moments": second_moments}
    extras |= {"ahead": ahead, "threads": threads}
    if not isinstance(plan, evertally.training.VectorPlan):
        raise TypeError(
            f"plan must be a VectorPlan, such as the .plan of plan_training's result, got {type(plan).__name__}"
        )
    optimizer = as_one(optimizer)
    refuse_mixing(module)
    _check_parameters(module, optimizer, tables)
    check_scale(scale, plan.norm)
    if tables and (clipping == "samples" or adaptive_clipping or second_moments):
        raise ValueError('tables need clipping="ghost" and a fixed threshold, because their learning rates are fixed')
    if tables and any(map(is_sharded, module.parameters())):
        raise ValueError("tables need whole parameters: omit tables, or fully_shard")
    _check_module(module, loss)
    if clipping not in ("auto", "samples", "ghost"):
        raise ValueError(f'clipping must be "auto", "samples" or "ghost", got {clipping!r}')
    if microbatch is not None and microbatch < 1:
        raise ValueError(
            f"microbatch is {microbatch}: give the number of examples whose gradients are computed at once"
        )
    if second_moments and clipping == "ghost":
        raise ValueError('second moments need the gradients of single examples: clipping="samples"')
    if (adaptive_clipping or second_moments) and scale != 1:
        raise ValueError("adaptive clipping and second moments need unscaled gradients: omit scale")
    _check_data(dataset, options)
    by_user = evertally.training.Users.of(users, len(dataset), examples_per_user, population)
    if by_user is not None:
        if loss is None or tables:
            raise ValueError("users need a loss function, and no tables")
        dataset = ByUser(dataset, by_user, options.pop("collate_fn", None))
        module, loss = OfUser(module), LossOfUser(loss)
    order = order_of(plan, key, name, len(dataset), batch_size)
    private = DPFTRL(optimizer, plan, key, name, batches=order, group=group, **extras)
    collate = _collated(dataset, Apart(options.pop("collate_fn", None) or torch.utils.data.default_collate))
    draws = Draws(key, name)
    sampler: Any = _Remaining(private, microbatch, draws)
    loader = torch.utils.data.DataLoader(_Numbered(dataset), batch_sampler=sampler, collate_fn=collate, **options)
    reason, is_auto = "it was requested", clipping == "auto" and not tables
    if tables:
        clipping, reason = "ghost", "tables need it"
    elif is_auto:
        with random_numbers_kept():
            example = lambda: collate([(0, dataset[0])])[:2]  # noqa: E731
            with whole(module, private.parameters) as parameters:
                clipping, reason = choose(module, loss, example, parameters, second_moments is not None)
    waiting = Tables(module, tables, private, (plan, key, name)) if tables else None
    return PrivateRun(module, loss, private, loader, clipping, microbatch, scale, waiting, reason, draws, is_auto)


def _check_module(module: torch.nn.Module, loss: Any) -> None:
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        raise ValueError("DistributedDataParallel adds up exact gradients: give the module inside, and group=")
    if isinstance(module, torch.nn.DataParallel):
        raise ValueError("DataParallel splits batches, and each example runs by itself: give the module inside")
    if loss is not None and not callable(loss):
        raise TypeError(
            "loss must be a function of the module's output and the targets, such as torch.nn.functional.cross_entropy"
            f", or None for the loss that the module returns, got {type(loss).__name__}"
        )


#: Options of a `DataLoader` that choose examples.
CHOOSING = ("batch_sampler", "drop_last", "sampler", "shuffle")


def _check_data(dataset: Any, options: dict[str, Any]) -> None:
    """Refuses data sets from which no examples can be chosen, and options that would choose others. Removes such
    options that choose nothing, because the loader has its own."""
    for name in CHOOSING:
        chosen = options.pop(name, None)
        if chosen is not None and chosen is not False:
            raise TypeError(f"the plan determines the batches: omit {name}")
    if isinstance(dataset, torch.utils.data.DataLoader):
        raise TypeError("the plan determines the batches: give the loader's dataset instead of the loader")
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            "the data set can only be read in its own order, but the plan chooses the examples of every batch: give "
            "one with a length and numbered examples, such as list(dataset)"
        )
    if isinstance(dataset, (tuple, list)) and len(dataset) > 0 and isinstance(dataset[0], torch.Tensor):
        raise TypeError("the data are tensors: make a data set of pairs from them, TensorDataset(inputs, targets)")


def _check_parameters(module: torch.nn.Module, optimizer: torch.optim.Optimizer, tables: Any) -> None:
    """Refuses an optimizer of another module, and parameters that neither the optimizer nor tables train."""
    own = {id(p): name for name, p in module.named_parameters()}
    taken = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not taken <= set(own):
        raise ValueError("the optimizer has parameters that are not the module's: make it with module.parameters()")
    taken |= {id(layer.weight) for layer in tables or () if isinstance(layer, torch.nn.Embedding)}
    if not tables and not any(p.requires_grad for p in module.parameters()):
        raise ValueError("no parameter is trained: unfreeze those to train with requires_grad_(True)")
    left = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in taken]
    if left:
        raise ValueError(
            f"`{left[0]}` is neither in the optimizer nor in tables: add it, or freeze it with requires_grad_(False)"
        )


class _Remaining:
    """This rank's parts of the batches of the remaining steps, those after the last step of the noise: the number of
    each example, and the seed for loading it."""

    def __init__(self, private: DPFTRL, microbatch: int | None, draws: Draws) -> None:
        self._private, self._microbatch, self._draws = private, microbatch, draws

    def __len__(self) -> int:
        return self._private.plan.horizon - self._private.noise.step

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for step in range(self._private.noise.step + 1, self._private.plan.horizon + 1):
            assert self._private.batches is not None
            batch = [int(example) for example in self._private.batches.batch(step)]
            own = part_of(batch, self._private.ranks, self._microbatch)
            yield list(zip(own, self._draws.seeds(step, own)))


class _Numbered(torch.utils.data.Dataset):
    """Examples with their numbers. While one is loaded, such as with random augmentation, the generators have its seed:
    other examples do not change its draws."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: tuple[int, int]) -> tuple[int, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[tuple[int, int]]) -> list[tuple[int, Any]]:
        """Several examples; PyTorch's loader calls it for a batch."""
        made = []
        with unmoved("the data set"), kept() as generators:
            for number, seed in indices:
                seed_all(seed.to_bytes(8, "little"), generators, short=True)
                made.append((number, self._dataset[number]))
        return made


def _collated(dataset: Any, collate_pairs: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Inputs, targets and numbers; empty batches have the shapes of an example. Examples that are mappings are both
    input and target: the module gets them as keyword arguments."""

    def collate(items: list[tuple[int, Any]]) -> Any:
        numbers = torch.tensor([number for number, _ in items], dtype=torch.long, device="cpu")
        made = collate_pairs([_with_tensors(example) for _, example in items] or [_with_tensors(dataset[0])])
        inputs, targets = (plain(made), plain(made)) if isinstance(made, Mapping) else made
        return (inputs, targets, numbers) if items else (part(inputs, NONE), part(targets, NONE), numbers)

    return collate


#: No example of a batch.
NONE = slice(0, 0)


def _with_tensors(example: Any) -> Any:
    """An example whose lists of numbers, as a tokenizer returns them, are tensors."""
    if not isinstance(example, Mapping):
        return example
    return {name: torch.tensor(value) if isinstance(value, list) else value for name, value in example.items()}
