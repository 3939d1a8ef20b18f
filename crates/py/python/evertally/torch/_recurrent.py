"""Recurrent layers as single operations, which `torch.func.vmap` can run for many examples at once.

PyTorch computes `RNN`, `LSTM` and `GRU`, and their cells, by fused kernels for which vmap has no rule. The functions
here compute the same, step by step, from the layers' own parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import evertally
import torch
from torch.nn import functional
from torch.nn.functional import linear

#: The hidden state, and for an LSTM its cell.
State = tuple[torch.Tensor, ...]


def replacement(layer: torch.nn.Module) -> Callable[..., Any] | None:
    """The forward function of a recurrent layer or cell of PyTorch; None for other modules, and for subclasses with
    another forward function."""
    for kinds, forward in ((LAYERS, _layer), (CELLS, _cell)):
        for kind in kinds:
            if isinstance(layer, kind) and type(layer).forward is kind.forward:
                return partial(forward, layer)
    return None


LAYERS = (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU)
CELLS = (torch.nn.RNNCell, torch.nn.LSTMCell, torch.nn.GRUCell)


def _layer(layer: Any, values: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
    """The forward function of `torch.nn.RNN`, `LSTM` and `GRU`."""
    if not isinstance(values, torch.Tensor):
        raise evertally.InvalidError(
            "a recurrent layer gets a packed sequence, whose form depends on all examples of a batch: pad every "
            "example to one fixed length, and use the output at each example's last word"
        )
    unbatched = values.ndim == 2
    if unbatched:
        values = values.unsqueeze(1)
        state = None if state is None else _each(state, lambda own: own.unsqueeze(1))
    elif layer.batch_first:
        values = values.transpose(0, 1)
    directions = 2 if layer.bidirectional else 1
    given = None if state is None else state if isinstance(state, tuple) else (state,)
    last: list[State] = []
    for level in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            place = level * directions + direction
            first = _zeros(layer, values) if given is None else tuple(own[place] for own in given)
            output, state_of_last = _sweep(layer, f"l{level}" + "_reverse" * direction, values, first, direction == 1)
            outputs.append(output)
            last.append(state_of_last)
        values = torch.cat(outputs, dim=-1)
        if layer.dropout and level + 1 < layer.num_layers:
            values = functional.dropout(values, layer.dropout, layer.training)
    states = tuple(torch.stack(parts) for parts in zip(*last))
    if unbatched:
        values, states = values.squeeze(1), tuple(own.squeeze(1) for own in states)
    elif layer.batch_first:
        values = values.transpose(0, 1)
    return values, states if isinstance(layer, torch.nn.LSTM) else states[0]


def _sweep(layer: Any, suffix: str, values: torch.Tensor, state: State, backwards: bool) -> tuple[torch.Tensor, State]:
    """One direction of one level: the outputs of all time steps, and the state after the last."""
    names = [f"{kind}_{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]
    of_input, of_state, bias_of_input, bias_of_state, projection = (getattr(layer, name, None) for name in names)
    ahead = linear(values, of_input, bias_of_input)
    outputs: list[torch.Tensor] = []
    times = range(len(values))
    for time in reversed(times) if backwards else times:
        state = _next(layer, ahead[time], linear(state[0], of_state, bias_of_state), state)
        if projection is not None:
            state = (linear(state[0], projection), *state[1:])
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if backwards else outputs), state


def _cell(cell: Any, values: torch.Tensor, state: Any = None) -> Any:
    """The forward function of `torch.nn.RNNCell`, `LSTMCell` and `GRUCell`."""
    if state is None:
        state = _zeros(cell, values.unsqueeze(0))
    elif not isinstance(state, tuple):
        state = (state,)
    of_input = linear(values, cell.weight_ih, cell.bias_ih)
    state = _next(cell, of_input, linear(state[0], cell.weight_hh, cell.bias_hh), state)
    return state if isinstance(cell, torch.nn.LSTMCell) else state[0]


def _next(layer: Any, of_input: torch.Tensor, of_state: torch.Tensor, state: State) -> State:
    """The next state, from the products of input and state with their weights."""
    if isinstance(layer, (torch.nn.GRU, torch.nn.GRUCell)):
        (reset, update, new), (own_reset, own_update, own_new) = of_input.chunk(3, dim=-1), of_state.chunk(3, dim=-1)
        candidate = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
        share = torch.sigmoid(update + own_update)
        return ((1 - share) * candidate + share * state[0],)
    if isinstance(layer, (torch.nn.LSTM, torch.nn.LSTMCell)):
        enter, forget, new, leave = (of_input + of_state).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(cell), cell
    return ((torch.relu if layer.nonlinearity == "relu" else torch.tanh)(of_input + of_state),)


def _zeros(layer: Any, values: torch.Tensor) -> State:
    """The state before the first step, for inputs with the time along the first dimension."""
    shape = values.shape[1:-1]
    hidden = values.new_zeros(*shape, getattr(layer, "proj_size", 0) or layer.hidden_size)
    if isinstance(layer, (torch.nn.LSTM, torch.nn.LSTMCell)):
        return hidden, values.new_zeros(*shape, layer.hidden_size)
    return (hidden,)


def _each(state: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return tuple(map(function, state)) if isinstance(state, tuple) else function(state)
