"""The functions that plan and release: their keywords, types and help.

Written by `generate.py` from `keywords.toml` and the table of declarations; change those, and run it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal

from . import _evertally, _tables
from ._evertally import Budget, Plan, SecretKey, Training, VectorPlan
from ._types import Number, Table, Time

__all__ = ["plan", "plan_lazy", "plan_release", "plan_sketch", "plan_training", "plan_vector", "release"]


def plan(
    horizon: int | None,
    *,
    workload: str | Sequence[str] = "sum",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    max_events_per_group: int | None = None,
    max_groups: int | None = None,
    min_gap: int | None = None,
    per: str | int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    sums_per_event: int = 1,
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    light_steps: bool = False,
    meaning: dict[str, str] | None = None,
) -> Plan:
    """Plans a :class:`Counter` of `horizon` steps (1 to 2^62; ``None``: without an end) under a budget, with the mechanism
    of least exact error.

    Raises :class:`InvalidError` for what is out of range or cannot be met.

    Steps:
        ``workload``: Quantity published at every step: sum (all events so far), window(W) (events of the last W steps,
            or of a time span such as window(7d)), decay(H) (each event's weight halves every H steps, or every time
            span) or increments (events of that step alone). May be repeated: all are then read from one release, and
            `window(7d)*4` makes the precision of that workload count four times as much as that of the others.

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``max_events``: Protect all events of one person, of whom at most so many are kept in all. Without it, what
            other bounds imply, or one event is protected.
        ``max_events_per_step``: Keep at most the first C events of each person in one step, across all groups (or
            keys). A smaller C reduces Gaussian noise. Without it, no separate limit.
        ``max_events_per_group``: Keep at most the first G events of each person in one group, across all steps. Without
            it, no separate limit.
        ``max_groups``: Keep only the events of the first N groups of each person. Without it, no limit.
        ``min_gap``: Keep only events of each person that are in the same step, or in steps at least this many steps
            apart. Without it, no minimum.
        ``per``: Protect what a person does in one period of at most so many steps, and let all bounds start anew in
            each. Without it, the whole history.
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Values:
        ``bounds``: Least and greatest value of one event, in units of the data. Without it, events count 1 each.
        ``grid``: Distance between neighbouring values, such as 0.01; finer values are rounded.
        ``sums_per_event``: To how many running sums one event is added at most.

    Mechanism:
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.
        ``light_steps``: Leave out mechanisms whose steps take more than logarithmic time.
        ``meaning``: Public text that becomes part of the plan: plans that differ in it have independent noise.

    >>> import evertally as et
    >>> plan = et.plan(365, rho=0.5, max_events=4)
    >>> plan.noise, plan.unit
    ('gaussian', 'person (max_events=4)')
    """
    return _evertally._plan(locals())


def plan_lazy(
    horizon: int,
    *,
    workload: str | Sequence[str] = "sum",
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    max_events_per_group: int | None = None,
    max_groups: int | None = None,
    min_gap: int | None = None,
    per: str | int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    sums_per_event: int = 1,
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    light_steps: bool = False,
    sampling: Literal["keyed", "integer", "float"] = "float",
    meaning: dict[str, str] | None = None,
) -> Plan:
    """Plans a :class:`LazyVector` of `horizon` steps: as :func:`plan`, with the mechanism of least error among those that
    can be read lazily with this `sampling`.

    Steps:
        ``workload``: What a read is: sum (all events so far), window(W) (those of the last W steps) or increments
            (those of the step alone); other than sums with sampling="keyed" only.

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``max_events``: Protect all events of one person, of whom at most so many are kept in all. Without it, what
            other bounds imply, or one event is protected.
        ``max_events_per_step``: Keep at most the first C events of each person in one step, across all groups (or
            keys). A smaller C reduces Gaussian noise. Without it, no separate limit.
        ``max_events_per_group``: Keep at most the first G events of each person in one group, across all steps. Without
            it, no separate limit.
        ``max_groups``: Keep only the events of the first N groups of each person. Without it, no limit.
        ``min_gap``: Keep only events of each person that are in the same step, or in steps at least this many steps
            apart. Without it, no minimum.
        ``per``: Protect what a person does in one period of at most so many steps, and let all bounds start anew in
            each. Without it, the whole history.
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Values:
        ``bounds``: Least and greatest value of one event, in units of the data. Without it, events count 1 each.
        ``grid``: Distance between neighbouring values, such as 0.01; finer values are rounded.
        ``sums_per_event``: To how many running sums one event is added at most.

    Mechanism:
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.
        ``light_steps``: Leave out mechanisms whose steps take more than logarithmic time.
        ``sampling``: How noise will be drawn, see :class:`LazyVector`.
        ``meaning``: Public text that becomes part of the plan: plans that differ in it have independent noise.

    >>> import evertally as et
    >>> et.plan_lazy(2**20, rho=0.5, sampling="keyed").mechanism.startswith("path-sum")
    True
    """
    return _evertally._plan_lazy(locals())


def plan_sketch(
    horizon: int,
    *,
    rows: int,
    width: int,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    min_gap: int | None = None,
    per: str | int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    light_steps: bool = False,
    sampling: Literal["keyed", "integer", "float"] = "float",
    meaning: dict[str, str] | None = None,
) -> Plan:
    """Plans a :class:`CountSketch` of `horizon` steps: as :func:`plan`, with noise for all cells that an event touches,
    and the mechanism of least error among those that can be read lazily.

    Sketch:
        ``rows``: Rows of the table: odd, up to 31.
        ``width``: Cells of a row, up to 2^32.

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``max_events``: Protect all events of one person, of whom at most so many are kept in all. Without it, what
            other bounds imply, or one event is protected.
        ``max_events_per_step``: Keep at most the first C events of each person in one step, across all groups (or
            keys). A smaller C reduces Gaussian noise. Without it, no separate limit.
        ``min_gap``: Keep only events of each person that are in the same step, or in steps at least this many steps
            apart. Without it, no minimum.
        ``per``: Protect what a person does in one period of at most so many steps, and let all bounds start anew in
            each. Without it, the whole history.
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Values:
        ``bounds``: Least and greatest value of one event, in units of the data. Without it, events count 1 each.
        ``grid``: Distance between neighbouring values, such as 0.01; finer values are rounded.

    Mechanism:
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.
        ``light_steps``: Leave out mechanisms whose steps take more than logarithmic time.
        ``sampling``: How noise will be drawn, see :class:`LazyVector`.
        ``meaning``: Public text that becomes part of the plan: plans that differ in it have independent noise.

    >>> import evertally as et
    >>> et.plan_sketch(1000, rows=5, width=1000, epsilon=1.0).meaning
    {'sketch': 'count-sketch(rows=5,width=1000)'}
    """
    return _evertally._plan_sketch(locals())


def plan_vector(
    horizon: int,
    *,
    norm: float = 1.0,
    series: Literal["increments", "running-sums"] = "increments",
    learning_rate: float | Sequence[float] | None = None,
    schedule: Literal["constant", "cosine"] = "constant",
    warmup: int = 0,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    participations: int | None = None,
    separation: int | None = None,
    sampled: float | None = None,
    bins: int | None = None,
    fresh_bins: int | None = None,
    mechanism: str | None = None,
    objective: Literal["max", "mean"] = "max",
    most_vectors: int = 64,
    cipher: Literal["aes-128-ctr", "chacha8", "chacha20"] = "aes-128-ctr",
    meaning: dict[str, str] | None = None,
) -> VectorPlan:
    """Plans Gaussian noise for `horizon` vectors (1 to 2^62 steps), such as the sums of clipped gradients of a training
    run: a :class:`VectorNoise`. One example is protected, and the budget covers the whole run; pure ε needs other noise
    and is refused.

    Vectors:
        ``norm``: The clipping norm: the most by which one example changes the vector of a step, in L2 over all
            coordinates.
        ``series``: What the noise is added to: each step's vector, for optimizers that add up by themselves, or the sum
            of all vectors so far. The promise is the same. (The Rust library's default is the other one.)

    Optimizer:
        ``learning_rate``: The learning rate, or one for each step: public. With it, errors are those of the parameters
            that stochastic gradient descent makes of the noisy vectors, and the mechanism is chosen and optimised for
            these. Without it, those of the running sums.
        ``schedule``: What a single learning rate does: it stays, or goes up in a straight line and down to 0 by half a
            cosine.
        ``warmup``: Over how many steps it goes up.
        ``momentum``: Heavy-ball momentum, without dampening, as in SGD(momentum=0.9) of the frameworks.
        ``weight_decay``: Decoupled weight decay: a step multiplies the parameters by 1 minus this times the learning
            rate (with momentum, as in AdamW, not as in SGD).

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``neighbours``: Whether an example is added or removed, or replaced by another.
        ``participations``: In how many steps one example takes part at most; for batches in the same order in every
            epoch, the epochs. Without it 1, or where `separation` is given as many as there is room for: ⌈horizon /
            separation⌉.
        ``separation``: How many steps two of them are apart at least (min-separation); the batches of such an epoch.
            Without it 1. Alone it is the pattern of DP-FTRL and of federated learning: as often as that allows.
        ``sampled``: In place of both: examples take part by lot, in every step this share of all of them in expectation
            (the batch size over the number of examples). The budget then needs far less noise, and is (ε, δ). The lots
            are those of :class:`Batches`, and stay as secret as the key.
        ``bins``: In place of all three: every example is put into one of so many bins by lot, once, and takes part in
            every epoch in the step of its bin (as many as an epoch has batches, up to 2048). Any mechanism with a row
            for every step goes with it. Planning takes seconds. The rest is as with ``sampled``.
        ``fresh_bins``: The same, but in every epoch an example is put into a new bin, at least as many steps after the
            last one as the mechanism has bands: less noise than ``bins`` for many epochs and small ε. It has up to as
            many bands as there are bins.

    Mechanism:
        ``mechanism``: A name such as smooth or banded-sqrt(bands=16); input is independent noise for every step, as in
            DP-SGD. Without it, the one of least error among those whose steps are light.
        ``objective``: Minimise the maximal or the mean error of the running sums, or of the parameters.
        ``most_vectors``: How many vectors of memory the mechanism may need, where none is named. No part of the plan.
        ``cipher``: The cipher that the noise is drawn from, part of the plan.
        ``meaning``: Public text that becomes part of the plan: plans that differ in it have independent noise.

    >>> import evertally as et
    >>> once = et.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="smooth")
    >>> four_epochs = et.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="smooth", participations=4, separation=500)
    >>> 1 < four_epochs.max_std_error / once.max_std_error < 4
    True
    >>> et.plan_vector(2000, epsilon=2.0, delta=1e-6, mechanism="smooth", separation=48).participations
    42
    """
    return _evertally._plan_vector(locals())


def plan_training(
    examples: int, batch: int, epochs: float,
    *,
    norm: float = 1.0,
    series: Literal["increments", "running-sums"] = "increments",
    learning_rate: float | Sequence[float] | None = None,
    schedule: Literal["constant", "cosine"] = "constant",
    warmup: int = 0,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    objective: Literal["max", "mean"] = "max",
    most_vectors: int = 64,
    cipher: Literal["aes-128-ctr", "chacha8", "chacha20"] = "aes-128-ctr",
    meaning: dict[str, str] | None = None,
) -> Training:
    """Compares the ways to train on so many `examples`, in batches of `batch`, for so many `epochs`: kinds of noise with
    the batches in a fixed order, or drawn by lot for every step or once, each with as little noise as the budget allows
    and with its exact error. ``plan_training(…).plan`` is the plan of the best that fits `most_vectors`.

    Every way has the same number of steps and the same expected batch. Searching takes some seconds, for thousands of
    steps and hundreds of bins one or two minutes.

    Vectors:
        ``norm``: The clipping norm: the most by which one example changes the vector of a step, in L2 over all
            coordinates.
        ``series``: What the noise is added to: each step's vector, for optimizers that add up by themselves, or the sum
            of all vectors so far. The promise is the same. (The Rust library's default is the other one.)

    Optimizer:
        ``learning_rate``: The learning rate, or one for each step: public. With it, errors are those of the parameters
            that stochastic gradient descent makes of the noisy vectors, and the mechanism is chosen and optimised for
            these. Without it, those of the running sums.
        ``schedule``: What a single learning rate does: it stays, or goes up in a straight line and down to 0 by half a
            cosine.
        ``warmup``: Over how many steps it goes up.
        ``momentum``: Heavy-ball momentum, without dampening, as in SGD(momentum=0.9) of the frameworks.
        ``weight_decay``: Decoupled weight decay: a step multiplies the parameters by 1 minus this times the learning
            rate (with momentum, as in AdamW, not as in SGD).

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Mechanism:
        ``objective``: Minimise the maximum or the mean error over the steps.
        ``most_vectors``: How many vectors of memory the mechanism may need, where none is named. No part of the plan.
        ``cipher``: The cipher that the noise is drawn from, part of the plan.
        ``meaning``: Public text that becomes part of the plan: plans that differ in it have independent noise.

    >>> import evertally as et
    >>> ways = et.plan_training(6000, 100, 2, epsilon=1.0, delta=1e-5)
    >>> ways.steps, ways.best.fits, ways.plan.mean_std_error <= ways[-1].plan.mean_std_error
    (120, True, True)
    >>> print(ways)  # doctest: +SKIP
    """
    return _evertally._plan_training(locals())


def plan_release(
    *,
    name: str = "main",
    every: str,
    start: Time,
    end: Time | None = None,
    steps: int | None = None,
    unbounded: bool = False,
    workload: str | Sequence[str] = "sum",
    publish: str | int | None = None,
    time_zone: str = "UTC",
    normalise_ids: str | Sequence[str] | None = None,
    missing: Literal["refuse", "skip"] = "refuse",
    outside: Literal["refuse", "skip"] = "refuse",
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    rest: str | None = None,
    scales: Sequence[Number] | None = None,
    rest_scale: Number | None = None,
    discover_groups: bool = False,
    selection_delta: float | None = None,
    select_every: int | None = None,
    floor: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    person: str | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    max_events_per_group: int | None = None,
    max_groups: int | None = None,
    max_total: Number | None = None,
    min_gap: int | None = None,
    per: str | int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    value: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    out_of_bounds: Literal["clamp", "refuse"] = "clamp",
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
) -> Plan:
    """Plans a :func:`release`: the :class:`Plan` of one with the same arguments, before any event is seen.

    Key:
        ``name``: Name of this stream; each name serves one data set.

    Steps:
        ``every``: Width of a step: 15m, 1h, 1d, 1w, 1mo, 1y, …
        ``start``: Start of the first step.
        ``end``: End of the last step, exclusive: 2025-01-01 for all of 2024.
        ``steps``: Number of steps, instead of end.
        ``unbounded``: Publish without an end, instead of end: the error of each step is close to the best possible if
            it were the last.
        ``workload``: Quantity published at every step: sum (all events so far), window(W) (events of the last W steps,
            or of a time span such as window(7d)), decay(H) (each event's weight halves every H steps, or every time
            span) or increments (events of that step alone). May be repeated: all are then read from one release, and
            `window(7d)*4` makes the precision of that workload count four times as much as that of the others.
        ``publish``: Publish only at the end of every time span, such as 1w or 1mo with daily steps, or of every given
            number of steps. The plan is made for the published values; contribution bounds, lateness and the ledger are
            still per step. Without it, every step.

    Events:
        ``time_zone``: Time zone of calendar steps, and of times without an offset.
        ``normalise_ids``: Normalise the texts of persons, groups and items before comparing them: nfc (compose
            characters), trim (remove blanks at both ends), casefold (ignore case), or several. Without it, texts are
            compared byte by byte.
        ``missing``: Policy for events whose person, value or key column is missing. "refuse": Stop with an error that
            names the event. "skip": Skip the event.
        ``outside``: Policy for events outside the horizon. "refuse": Stop with an error that names the event. "skip":
            Skip the event.

    Groups:
        ``group``: Columns that name the group of an event, one or several.
        ``groups``: The groups to release, tuples for several columns. They are declared, because a group that appears
            only when the data has it tells that someone is in it.
        ``rest``: Release events of undeclared groups under this name instead of refusing them.
        ``scales``: Factors that multiply bounds and grid in each group, in the order of the groups. All groups share
            one plan, and the noise of each is proportional to its factor. With bounds 0,1 a factor is the largest value
            of an event of the group. Without it, 1 for all.
        ``rest_scale``: Factor that multiplies bounds and grid in the rest. Without it, 1.
        ``discover_groups``: Discover groups from the data instead of declaring them. A group is published from the
            first selection time at which its noisy value exceeds a threshold that a group with only one person would
            almost never reach. Requires selection-delta and a budget with δ or ρ.
        ``selection_delta``: Upper bound on the probability that a group with only one person is published (with per:
            because of what they do in one period; floor 2 makes it hold for all periods together). It is added to the δ
            of the budget.
        ``select_every``: Number of steps between selection times, each of which tests all groups in the data; the last
            step is always one. Each selection time uses a share of selection-delta. Without it, a twelfth of the
            horizon.
        ``floor``: Never publish a group with fewer than N people (or events, if single events are protected), except
            with probability selection-delta. Raises the threshold; costs no budget. Without it, the threshold for one
            person.

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``person``: Column that names the person: all events of a person are protected together. Without it, only single
            events are protected.
        ``max_events``: Keep at most the first M events of each person, across all steps and groups (or keys). Without
            it, as implied by other bounds.
        ``max_events_per_step``: Keep at most the first C events of each person in one step, across all groups (or
            keys). A smaller C reduces Gaussian noise. Without it, no separate limit.
        ``max_events_per_group``: Keep at most the first G events of each person in one group, across all steps. Without
            it, no separate limit.
        ``max_groups``: Keep only the events of the first N groups of each person. Without it, no limit.
        ``max_total``: Cap each person's total absolute value at X; the event that crosses the cap is truncated to the
            part that fits. With scales, each value counts in units of its group's scale. Without it, no limit.
        ``min_gap``: Keep only events of each person that are in the same step, or in steps at least this many steps
            apart. Without it, no minimum.
        ``per``: Protect what a person does in one period, and restart all bounds in each: a calendar day, week (from
            Monday), month, quarter or year, a width such as 2w, or a number of steps, counted from the first step.
            Without it, the whole history.
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Values:
        ``value``: Sum this column instead of counting events.
        ``bounds``: Smallest and largest value of one event; values outside are clamped.
        ``grid``: Distance between neighbouring values, such as 0.01; finer values are rounded.
        ``out_of_bounds``: Policy for values outside the bounds. "clamp": Use the nearer bound. "refuse": Stop with an
            error that names the event.

    Mechanism:
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.

    >>> import evertally as et
    >>> plan = et.plan_release(start="2024-01-01", end="2025-01-01", every="1d", epsilon=1.0)
    >>> plan.horizon
    366
    """
    return _tables.plan_release(locals())


def release(
    table: Table,
    *,
    name: str = "main",
    key: SecretKey | str | os.PathLike[str],
    budget_file: str | os.PathLike[str] | None = None,
    every: str,
    start: Time,
    end: Time | None = None,
    steps: int | None = None,
    unbounded: bool = False,
    workload: str | Sequence[str] = "sum",
    publish: str | int | None = None,
    through: Time | None = None,
    time: str = "time",
    time_format: str = "auto",
    time_zone: str = "UTC",
    missing_text: Sequence[str] = (),
    normalise_ids: str | Sequence[str] | None = None,
    missing: Literal["refuse", "skip"] = "refuse",
    outside: Literal["refuse", "skip"] = "refuse",
    sort_buffer: int = 0,
    group: str | Sequence[str] | None = None,
    groups: Iterable[str] | Iterable[Sequence[object]] | None = None,
    rest: str | None = None,
    scales: Sequence[Number] | None = None,
    rest_scale: Number | None = None,
    discover_groups: bool = False,
    selection_delta: float | None = None,
    select_every: int | None = None,
    floor: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    allow_weak_budget: bool = False,
    budget: Budget | None = None,
    person: str | None = None,
    max_events: int | None = None,
    max_events_per_step: int | None = None,
    max_events_per_group: int | None = None,
    max_groups: int | None = None,
    max_total: Number | None = None,
    min_gap: int | None = None,
    per: str | int | None = None,
    neighbours: Literal["add-remove", "replace-one"] = "add-remove",
    value: str | None = None,
    bounds: tuple[Number, Number] | None = None,
    grid: Number | None = None,
    measures: str | Sequence[str] | None = None,
    out_of_bounds: Literal["clamp", "refuse"] = "clamp",
    mechanism: str | None = None,
    noise: Literal["laplace", "gaussian"] | None = None,
    objective: Literal["max", "mean"] = "max",
    confidence: float = 0.95,
    band: Literal["pointwise", "simultaneous"] = "pointwise",
    view: str | Sequence[str] | None = None,
) -> Table:
    """Releases the private running counts or sums of a table of events, one row a step and group.

    The values are those that the program ``evertally release`` writes for the same events, key, name and flags. `table`
    is a pandas or polars DataFrame, a pyarrow Table, or anything else with ``__arrow_c_stream__``; its columns are read
    where they are, and the result is of the same kind (else an :class:`ArrowTable`), with the columns ``time`` (the
    beginning of the step), the group columns, ``step`` (from 1), ``value``, ``std_error``, and ``lower`` and ``upper``,
    the ends of an interval that contains the exact value with the given `confidence`. One budget covers the whole
    history of all groups.

    Raises :class:`TableError` for a bad row or column, and :class:`InvalidError` for parameters that do not fit.

    Key:
        ``name``: Name of this stream; each name serves one data set.
        ``key``: The secret key or the path of its file. Its ledger refuses to release other data under the same name;
            the same data give the same release.
        ``budget_file``: The budget of the data source, made by ``evertally budget new``, that this release spends from:
            its plan counts in full, once, and is refused where it does not fit.

    Steps:
        ``every``: Width of a step: 15m, 1h, 1d, 1w, 1mo, 1y, …
        ``start``: Start of the first step.
        ``end``: End of the last step, exclusive: 2025-01-01 for all of 2024.
        ``steps``: Number of steps, instead of end.
        ``unbounded``: Publish without an end, instead of end: the error of each step is close to the best possible if
            it were the last.
        ``workload``: Quantity published at every step: sum (all events so far), window(W) (events of the last W steps,
            or of a time span such as window(7d)), decay(H) (each event's weight halves every H steps, or every time
            span) or increments (events of that step alone). May be repeated: all are then read from one release, and
            `window(7d)*4` makes the precision of that workload count four times as much as that of the others.
        ``publish``: Publish only at the end of every time span, such as 1w or 1mo with daily steps, or of every given
            number of steps. The plan is made for the published values; contribution bounds, lateness and the ledger are
            still per step. Without it, every step.
        ``through``: Publish only the steps that end by this time; the rest can follow later from the same, longer data.
            Without it the whole horizon is published, also steps that have not ended.

    Events:
        ``time``: Column with the time of each event.
        ``time_format``: Format of the times: auto (dates with or without a time of day and an offset), rfc3339 (an
            offset is required), date (dates only), epoch-seconds or epoch-millis (numbers since 1970 UTC), or a pattern
            such as %d/%m/%Y %H:%M or %Y%m%d. By default auto, which refuses bare numbers.
        ``time_zone``: Time zone of calendar steps, and of times without an offset.
        ``missing_text``: Texts that mark a missing cell, such as NA.
        ``normalise_ids``: Normalise the texts of persons, groups and items before comparing them: nfc (compose
            characters), trim (remove blanks at both ends), casefold (ignore case), or several. Without it, texts are
            compared byte by byte.
        ``missing``: Policy for events whose person, value or key column is missing. "refuse": Stop with an error that
            names the event. "skip": Skip the event.
        ``outside``: Policy for events outside the horizon. "refuse": Stop with an error that names the event. "skip":
            Skip the event.
        ``sort_buffer``: Sort events by time while reading, with a buffer of this many events. By default 0, which
            refuses unsorted events.

    Groups:
        ``group``: Columns that name the group of an event, one or several.
        ``groups``: The groups to release, tuples for several columns. They are declared, because a group that appears
            only when the data has it tells that someone is in it.
        ``rest``: Release events of undeclared groups under this name instead of refusing them.
        ``scales``: Factors that multiply bounds and grid in each group, in the order of the groups. All groups share
            one plan, and the noise of each is proportional to its factor. With bounds 0,1 a factor is the largest value
            of an event of the group. Without it, 1 for all.
        ``rest_scale``: Factor that multiplies bounds and grid in the rest. Without it, 1.
        ``discover_groups``: Discover groups from the data instead of declaring them. A group is published from the
            first selection time at which its noisy value exceeds a threshold that a group with only one person would
            almost never reach. Requires selection-delta and a budget with δ or ρ.
        ``selection_delta``: Upper bound on the probability that a group with only one person is published (with per:
            because of what they do in one period; floor 2 makes it hold for all periods together). It is added to the δ
            of the budget.
        ``select_every``: Number of steps between selection times, each of which tests all groups in the data; the last
            step is always one. Each selection time uses a share of selection-delta. Without it, a twelfth of the
            horizon.
        ``floor``: Never publish a group with fewer than N people (or events, if single events are protected), except
            with probability selection-delta. Raises the threshold; costs no budget. Without it, the threshold for one
            person.

    Privacy budget:
        ``epsilon``: ε of ε-differential privacy (with delta: of (ε, δ)-differential privacy).
        ``delta``: δ of (ε, δ)-differential privacy.
        ``rho``: ρ of zero-concentrated differential privacy.
        ``allow_weak_budget``: Accept a budget so large that it protects next to nothing (ε above 20, ρ above 10).
        ``budget``: A :class:`Budget`, in the place of its numbers.

    Privacy unit:
        ``person``: Column that names the person: all events of a person are protected together. Without it, only single
            events are protected.
        ``max_events``: Keep at most the first M events of each person, across all steps and groups (or keys). Without
            it, as implied by other bounds.
        ``max_events_per_step``: Keep at most the first C events of each person in one step, across all groups (or
            keys). A smaller C reduces Gaussian noise. Without it, no separate limit.
        ``max_events_per_group``: Keep at most the first G events of each person in one group, across all steps. Without
            it, no separate limit.
        ``max_groups``: Keep only the events of the first N groups of each person. Without it, no limit.
        ``max_total``: Cap each person's total absolute value at X; the event that crosses the cap is truncated to the
            part that fits. With scales, each value counts in units of its group's scale. Without it, no limit.
        ``min_gap``: Keep only events of each person that are in the same step, or in steps at least this many steps
            apart. Without it, no minimum.
        ``per``: Protect what a person does in one period, and restart all bounds in each: a calendar day, week (from
            Monday), month, quarter or year, a width such as 2w, or a number of steps, counted from the first step.
            Without it, the whole history.
        ``neighbours``: Neighbouring data sets: the privacy unit's events are added or removed, or replaced by others.

    Values:
        ``value``: Sum this column instead of counting events.
        ``bounds``: Smallest and largest value of one event; values outside are clamped.
        ``grid``: Distance between neighbouring values, such as 0.01; finer values are rounded.
        ``measures``: Measure to release at the end of every step, under one budget with the others: count, sum, mean,
            variance, std (standard deviation), distinct (people so far), distinct(WIDTH) (people in the last WIDTH
            steps, or in a time span such as 7d), histogram(CUT,…) (events by value) or quantile(SHARE). `mean*4` makes
            the precision of that measure count four times as much as that of the others when the budget is divided. May
            be repeated. Without it, a running count or sum.
        ``out_of_bounds``: Policy for values outside the bounds. "clamp": Use the nearer bound. "refuse": Stop with an
            error that names the event.

    Mechanism:
        ``mechanism``: Mechanism, such as subtract(k=13). Without it, the one with the least error.
        ``noise``: Noise distribution. Without it, the one with the least error that the budget allows.
        ``objective``: Minimise the maximum or the mean error over the steps.

    Output:
        ``confidence``: Confidence level of the intervals.
        ``band``: Coverage of the intervals: each interval holds by itself, or all steps of a group hold at once.
            "pointwise": Each interval holds with the confidence level; among many, some miss. "simultaneous": The
            intervals of all steps hold at once, for each group.
        ``view``: Additional columns with adjusted copies of the released values: `non-negative`, `non-decreasing`
            (requires band simultaneous), `whole-number`, or several.

    >>> import evertally as et, pyarrow as pa
    >>> events = pa.table({"time": ["2024-01-01", "2024-01-01", "2024-01-03"], "airport": ["JFK", "LGA", "JFK"]})
    >>> released = et.release(
    ...     events, key=et.SecretKey.generate(), start="2024-01-01", end="2025-01-01", every="1d",
    ...     group="airport", groups=["JFK", "LGA"], epsilon=1.0,
    ... )
    >>> released.column_names
    ['time', 'airport', 'step', 'value', 'std_error', 'lower', 'upper']
    >>> released.num_rows
    732
    """
    return _tables.release(table, locals())
