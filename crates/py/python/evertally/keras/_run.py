"""Model, optimizer and data of a run, wrapped in one call."""

from __future__ import annotations

import hashlib
import inspect
import math
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

import evertally
import evertally.training
import jax
import jax.extend
import jax.numpy as jnp
import keras
import numpy as np

from evertally.training._order import Order, one_at_a_time, order_of, steps_per_epoch
from evertally.training._seeds import Seeds
from evertally.jax import NoiseState, clip_and_sum, correlated_noise, user_loss

from ._fit import REMEDIES, count_steps, fit
from ._guard import MARK, install, of_run

__all__ = ["PrivateRun", "make_private"]

# A sampled batch of up to this many standard deviations above its expected size is computed at once: one in a hundred
# million batches of 64 is larger, one in a million batches of 2. The step of a larger one takes longer, and reveals
# that.
MARGIN = 6.0
# The last line of JAX's message about an error of the host callback that makes the noise.
CALLBACK = re.compile(r"(?:^|\n)(?:[\w.]+\.)?(\w+): (.*)\s*$")


class PrivateRun:
    """A model, its optimizer, its data and the noise of a run, made by `make_private`.

    The model's and the optimizer's variables are always those after the last step, and the optimizer's `iterations` is
    the number of that step: a model saved with its optimizer, in Keras' own format, is a checkpoint.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        data: tuple[Any, Any],
        plan: evertally.training.VectorPlan,
        order: Order,
        noise: Any,
        noise_state: NoiseState,
        microbatch: int,
        gradients_of: Callable[..., Any],
        loss: Callable[..., Any],
        secret: Any,
        users: evertally.training.Users | None = None,
    ) -> None:
        self.loss, self._in_progress = loss, threading.Lock()
        self.model, self.optimizer, self.plan, self.microbatch = model, optimizer, plan, microbatch
        self.noise_state = noise_state  # with `on="device"` as secret as the key
        self._data, self._order, self._users = data, order, users
        expected = order.expected_size

        def sums(trainable: Any, frozen: Any, batch: Any, real: Any, numbers: Any, step: Any, before: Any) -> Any:
            gradients = gradients_of(trainable, frozen, batch, real, numbers, step)
            counts = real.reshape(len(real), -1).any(axis=1)

            def of_real(leaf: Any) -> Any:
                return jnp.where(counts.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)

            more = clip_and_sum(jax.tree.map(of_real, gradients), plan.norm)
            return jax.tree.map(jnp.add, before, more)

        def descend(trainable: Any, of_optimizer: Any, total: Any, state: Any) -> Any:
            noisy, state = noise.update(total, state)
            mean = jax.tree.map(lambda leaf, variable: (leaf / expected).astype(variable.dtype), noisy, trainable)
            return *optimizer.stateless_apply(of_optimizer, mean, trainable), state

        self._sums, self._descend = jax.jit(sums), jax.jit(descend)
        # The law of draws does not depend on an example's number if nobody without the key knows their seeds.
        self._frozen = [
            variable.value ^ secret if _is_seed(variable) else variable.value
            for variable in model.non_trainable_variables
        ]

    @property
    def step_number(self) -> int:
        """The number of steps taken so far."""
        return int(self.optimizer.iterations.value)

    def fit(
        self,
        steps: int | None = None,
        *,
        epochs: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        validation_data: tuple[Any, Any] | None = None,
        verbose: int | str = 0,
        **others: Any,
    ) -> keras.callbacks.History:
        """Takes a number of steps or epochs, by default all that the plan has left. If batches are sampled, an epoch
        has the steps in which an example takes part once on average.

        Callbacks and `validation_data`, a pair of arrays, are those of Keras. Logs have `val_loss`, and the metrics of
        a model that was compiled with a loss; there is no training loss, because it is not private. If the validation
        data are private, each metric is another release, and so is a decision by it, such as early stopping."""
        for name in others:
            remedy = REMEDIES.get(name, "a private run has no such argument")
            raise TypeError(f"fit takes no {name}: {remedy}")
        if steps is not None and not isinstance(steps, int):
            raise TypeError(f"steps must be an int, got {type(steps).__name__}: {REMEDIES['x']}")
        done, per_epoch = self.step_number, steps_per_epoch(self._order)
        count = count_steps(self.plan.horizon - done, done, per_epoch, steps, epochs)
        return fit(self, count, per_epoch, callbacks, validation_data, verbose)

    @one_at_a_time
    def step(self) -> None:
        """Takes the next step of the plan, on its batch: clipped sum, noise, the optimizer's step. A step with an empty
        batch is taken, too. A step that is refused changes nothing, such as one while another one is in progress."""
        done = self.step_number
        if done == self.plan.horizon:
            raise evertally.HorizonExhausted(
                f"the plan's {done} steps are taken: a longer run needs its own plan, and spends additional budget"
            )
        if done != int(self.noise_state.step):
            raise ValueError(
                f"the optimizer has taken {done} steps, but this run {int(self.noise_state.step)}: steps taken "
                "elsewhere are not private; after loading weights make a new run"
            )
        trainable = [variable.value for variable in self.model.trainable_variables]
        of_optimizer = [variable.value for variable in self.optimizer.variables]
        total = self._sum_of(trainable, self._order.batch(done + 1), done + 1)
        try:
            with of_run():
                made = jax.block_until_ready(self._descend(trainable, of_optimizer, total, self.noise_state))
        except Exception as error:
            if (of_host := _said_by_the_host(error)) is None:
                raise
            raise of_host from error
        trainable, of_optimizer, self.noise_state = made
        for variable, value in zip(self.model.trainable_variables, trainable):
            variable.assign(value)
        for variable, value in zip(self.optimizer.variables, of_optimizer):
            variable.assign(value)

    def _sum_of(self, trainable: Any, batch: Any, step: int) -> Any:
        """The clipped sum, computed in parts of one fixed size; the last part is padded with zeros."""
        total = [jnp.zeros(value.shape, jnp.float32) for value in trainable]
        for first in range(0, max(len(batch), 1), self.microbatch):
            some = batch[first : first + self.microbatch]
            numbers = np.zeros(self.microbatch, np.uint32)
            numbers[: len(some)] = some
            part, real = self._part(some)
            total = self._sums(trainable, self._frozen, part, real, numbers, np.uint32(step), total)
        return total

    def _part(self, some: Any) -> tuple[Any, Any]:
        """The data of some examples, or users, and which of them count, filled up to the size of a part."""
        if self._users is not None:
            chosen, real = self._users.batch(some, self.microbatch)
            return jax.tree.map(lambda array: array[chosen], self._data), real

        def filled(array: Any) -> Any:
            made = np.zeros((self.microbatch, *array.shape[1:]), array.dtype)
            made[: len(some)] = array[some]
            return made

        return jax.tree.map(filled, self._data), np.arange(self.microbatch) < len(some)

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε for which the whole run is (ε, δ)-differentially private, also before its end."""
        return self.plan.guarantee.epsilon_at(delta)


def make_private(
    model: keras.Model,
    loss: Any,
    optimizer: keras.optimizers.Optimizer,
    data: tuple[Any, Any],
    plan: evertally.training.VectorPlan,
    key: evertally.SecretKey,
    name: str,
    *,
    batch_size: int | None = None,
    microbatch: int | None = None,
    on: Literal["host", "device"] = "host",
    noise_state: NoiseState | None = None,
    users: Iterable[Hashable] | None = None,
    examples_per_user: int | None = None,
    population: int | None = None,
    **options: Any,
) -> PrivateRun:
    """Wraps a Keras model, its optimizer and its data in one call: a run on the plan's batches.

    `data` are inputs and targets: arrays with the examples along their first axis, or lists, tuples and dicts of them.
    `loss` is a Keras loss, its name, or a function of targets and outputs. An example's loss is that of a batch of one,
    including the losses that layers add. If the plan has `sampling`, batches are sampled with the key. Otherwise they
    follow the order of the data, `batch_size` at a time, the same in every epoch.

    `microbatch` is the number of examples whose gradients are computed at a time; by default a sampled batch almost
    never has more. Batches are padded to it, so that everything is compiled once, and the time of a step does not
    depend on its examples. `on` chooses where the noise is made; see `evertally.jax.correlated_noise`, which has the
    `options`.

    With `users`, the user of each example, the privacy unit is a user with all examples: plan for the number of users.
    Batches consist of users, and so do parts of `microbatch`. The gradient of the mean loss of a user's first
    `examples_per_user` examples is clipped as a whole; an example's draws depend on its user and its place there.
    `population`, the number of users in all, keeps the numbers of users: see `evertally.training.Users`.

    An optimizer that has taken steps of this run continues after them: load a model that was saved with its optimizer.
    Steps of another key, name or plan, and steps that were not private, are refused: the optimizer's name, which Keras
    saves, ends with a mark of its run. `noise_state`, from the earlier run, is then required only for noise that was
    made on the device by mechanisms that keep vectors.

    Raises ``ValueError`` for layers that keep state of their batches, as `BatchNormalization` does during training, for
    optimizers that scale the loss, and for batches that come more often or sooner than the plan allows.
    """
    if not isinstance(plan, evertally.training.VectorPlan):
        raise TypeError(
            f"plan must be a VectorPlan, such as the .plan of plan_training's result, got {type(plan).__name__}"
        )
    inputs, targets = data = jax.tree.map(np.asarray, _pair(data))
    sizes = {len(array) for array in jax.tree.leaves(data)}
    if len(sizes) != 1:
        raise ValueError(f"inputs and targets have {sorted(sizes)} examples: give the same number of each")
    (examples,) = sizes
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise TypeError(f"optimizer must be one of keras.optimizers, such as SGD(0.1), got {type(optimizer).__name__}")
    if getattr(optimizer, "loss_scale_factor", None) or isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError("an optimizer that scales the loss would divide gradients that were never multiplied")
    if microbatch is not None and microbatch < 1:
        raise ValueError(f"microbatch is {microbatch}: give the number of examples that are computed at once")
    if not model.built:
        model(jax.tree.map(lambda array: array[:1], inputs))
    optimizer.build(model.trainable_variables)
    by_user = evertally.training.Users.of(users, examples, examples_per_user, population)
    order = order_of(plan, key, name, examples if by_user is None else len(by_user), batch_size)
    loss = keras.losses.get(loss)
    gradients_of = _gradients_of(model, loss, data, by_user)
    noise = correlated_noise(plan, key, name, on=on, batches=order, **options)
    install()
    _bind(optimizer, plan, key, name)
    state = _state(noise, model, int(optimizer.iterations.value), noise_state)
    size = order.expected_size
    most = order.max_size if isinstance(order, evertally.training.Batches) else int(size)
    at_once = math.ceil(size + MARGIN * math.sqrt(size)) if most is None else most
    secret = np.frombuffer(Seeds(key, name).seed("keras")[:8], dtype=np.uint32)
    run = (model, optimizer, data, plan, order, noise, state, microbatch or at_once, gradients_of, loss)
    return PrivateRun(*run, secret, by_user)


def _pair(data: Any) -> tuple[Any, Any]:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):
        raise TypeError(
            f"data must be a pair of arrays, (inputs, targets), got {type(data).__name__}: the plan determines the "
            "batches, so there is no PyDataset, tf.data.Dataset, DataLoader or generator. Load all examples into "
            "arrays, each prepared without the others of a batch"
        )
    return data[0], data[1]


def _bind(optimizer: Any, plan: evertally.training.VectorPlan, key: evertally.SecretKey, name: str) -> None:
    """Marks the optimizer with its run, and refuses one that has taken other steps: the guarantee is for all steps of
    one key, name and plan."""
    done = int(optimizer.iterations.value)
    # A state is authenticated: its bytes distinguish keys, names and plans, and reveal nothing about the key.
    own = evertally.VectorNoise(plan, key, name, coordinates=1).save()
    mark = f"_private_{hashlib.sha256(own).hexdigest()[:32]}"
    if done and not optimizer.name.endswith(mark):
        raise ValueError(
            f"the optimizer has taken {done} steps, and not as the run {name!r} with this key and plan: to continue a "
            "run give its key, name and plan; another run needs a new optimizer"
        )
    if done > plan.horizon:
        raise ValueError(
            f"the optimizer has taken {done} steps, and the plan has {plan.horizon}: some were not private; make a new "
            "optimizer, and a model without these steps"
        )
    optimizer.name = MARK.sub("", optimizer.name) + mark


def _state(noise: Any, model: keras.Model, done: int, given: NoiseState | None) -> NoiseState:
    """The noise's state after `done` steps."""
    if given is not None:
        if int(given.step) != done:
            raise ValueError(f"noise_state is of step {int(given.step)}, and the optimizer has taken {done} steps")
        return given
    state: NoiseState = noise.init([variable.value for variable in model.trainable_variables])
    if done and state.kept:
        raise ValueError(
            f"the optimizer has taken {done} steps, and the noise made on the device keeps vectors: give noise_state "
            'from the earlier run, or on="host"'
        )
    return state._replace(step=jnp.full_like(state.step, done))


def _gradients_of(
    model: keras.Model, loss: Callable[..., Any], data: tuple[Any, Any], users: evertally.training.Users | None
) -> Callable[..., Any]:
    """The gradients of single examples or users, from the model's stateless call on each example alone."""
    training = {"training": True} if _takes_training(model) else {}

    def forward(trainable: Any, frozen: Any, example: Any) -> tuple[Any, Any]:
        inputs, target = jax.tree.map(lambda array: array[None], example)
        outputs, after, added = model.stateless_call(trainable, frozen, inputs, return_losses=True, **training)
        of_example = jnp.mean(jnp.asarray(loss(target, outputs), jnp.float32))
        return of_example + sum(jnp.sum(one) for one in added), after

    _refuse_memory(model, forward, data)
    seeds = [_is_seed(variable) for variable in model.non_trainable_variables]

    def loss_of(trainable: Any, frozen: Any, example: Any, *place: Any) -> Any:
        # A function of step and number: adding or removing an example or a user does not change the draws of others.
        drawn = [_seed(value, *place) if seed else value for value, seed in zip(frozen, seeds)]
        return forward(trainable, drawn, example)[0]

    def of_one(trainable: Any, frozen: Any, example: Any, real: Any, number: Any, step: Any) -> Any:
        del real
        return jax.grad(loss_of)(trainable, frozen, example, step, number)

    def of_user(trainable: Any, frozen: Any, examples: Any, real: Any, number: Any, step: Any) -> Any:
        def of_example(variables: Any, example: Any, place: Any) -> Any:
            return loss_of(variables, frozen, example, step, number, place)

        return jax.grad(user_loss(of_example))(trainable, examples, jnp.arange(len(real)), real)

    def of_all(trainable: Any, frozen: Any, batch: Any, real: Any, numbers: Any, step: Any) -> Any:
        each = of_one if users is None else of_user
        return jax.vmap(each, in_axes=(None, None, 0, 0, 0, None))(trainable, frozen, batch, real, numbers, step)

    return of_all


def _takes_training(model: keras.Model) -> bool:
    parameters = inspect.signature(model.call).parameters.values()
    return any(one.name == "training" or one.kind is one.VAR_KEYWORD for one in parameters)


def _is_seed(variable: keras.Variable) -> bool:
    return variable.name == "seed_generator_state" and variable.shape == (2,) and variable.dtype == "uint32"


def _seed(value: Any, *place: Any) -> Any:
    for number in place:
        value = jax.random.fold_in(value, number)
    return value


def _refuse_memory(model: keras.Model, forward: Callable[..., Any], data: Any) -> None:
    """Searches the traced program for variables that it changes: state that a layer keeps of an example is exact, and
    has no noise."""
    values = [[v.value for v in group] for group in (model.trainable_variables, model.non_trainable_variables)]
    traced = jax.make_jaxpr(forward)(*values, jax.tree.map(lambda array: array[0], data)).jaxpr
    _refuse_calls(traced)
    first = len(values[0])
    ins, outs = traced.invars[first : first + len(values[1])], traced.outvars[1:]
    for variable, before, after in zip(model.non_trainable_variables, ins, outs):
        if before is not after and not _is_seed(variable):
            raise ValueError(
                f"`{variable.path}` keeps something of each batch, without noise: use another layer "
                "(LayerNormalization and GroupNormalization keep nothing), or freeze this one with trainable = False"
            )


#: Operations that run code of the host, or that see a whole batch under `jax.vmap`.
UNSEEN = ("custom_vmap_call", "pure_callback", "io_callback", "debug_callback", "ffi_call")


def _refuse_calls(program: Any) -> None:
    """Refuses operations that can mix examples, or keep their values, where it is not seen."""
    for equation in program.eqns:
        if equation.primitive.name in UNSEEN:
            raise ValueError(
                f"the model calls {equation.primitive.name}, which can mix examples, or keep their values, where it is "
                "not seen: compute by operations of jax.numpy or keras.ops, or in the data, for each example alone"
            )
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            _refuse_calls(inner)


def _said_by_the_host(error: Exception) -> Exception | None:
    """The error of the callback that makes the noise, parsed from JAX's message about it."""
    said = CALLBACK.search(str(error))
    kind = getattr(evertally, said[1], None) if said else None
    return kind(said[2]) if said and isinstance(kind, type) and issubclass(kind, Exception) else None
