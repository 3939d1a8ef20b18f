"""Federated plans and the server: sensitivity by brute force, limits of users, resumption, and the integer grid."""

import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import pytest
from evertally.training import federated
from evertally.training.federated import _server

PUBLIC = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))


def small(**more: Any) -> federated.RoundsPlan:
    asked: dict[str, Any] = {"population": 12, "cohort": 3, "rho": 0.5}
    return federated.plan_rounds(4, **(asked | more))


class Watched:
    """What reaches the noise: the sums of the rounds, instead of noisy sums."""

    def __init__(self, server: federated.Server) -> None:
        self.sums: list[Any] = []
        lane = server._lane
        self._release = lane.release
        lane.release = self.release  # type: ignore[method-assign]

    def release(self, total: Any, users: int, again: bool) -> Any:
        self.sums.append(total.astype(np.float64))
        return self._release(total, users, again)


def sums_of(plan: federated.RoundsPlan, updates: list[dict[str, Any]], without: str = "") -> Any:
    """The sums that a server adds noise to; the updates of one user are left out."""
    server = federated.Server(plan, PUBLIC, "canary", np.zeros(2))
    watched = Watched(server)
    for present in updates:
        server.step_updates({user: update for user, update in present.items() if user != without})
    return np.array(watched.sums)


def schedules(plan: federated.RoundsPlan) -> list[list[int]]:
    """All sets of rounds that a server allows one user."""
    found = []
    for rounds in itertools.product([0, 1], repeat=4):
        server = federated.Server(plan, PUBLIC, "schedules", np.zeros(2))
        try:
            for present in rounds:
                server.step_updates({"ann": np.ones(2)} if present else {})
        except et.InvalidError:
            continue
        found.append([number for number, present in enumerate(rounds) if present])
    return found


class TestSensitivity:
    @pytest.mark.parametrize("limits", [(1, 4), (2, 2), (2, 1), (4, 1), (2, 3), (1, 1)])
    @pytest.mark.parametrize("mechanism", ["blt", "input", "smooth"])
    def test_a_user_moves_the_input_of_the_noise_no_further_than_planned(
        self, limits: tuple[int, int], mechanism: str
    ) -> None:
        """Two populations that differ in one user, all schedules of four rounds: the distance of the two sequences of
        sums, in units of the noise, is at most μ, and some schedule attains it."""
        participations, separation = limits
        plan = small(participations=participations, separation=separation, mechanism=mechanism, norm=0.5)
        assert isinstance(plan.noise, et.training.VectorPlan)
        noise = plan.noise.noise_matrix()
        precision = np.linalg.inv(noise @ noise.T)
        draw = np.random.default_rng(1)
        others = [{f"user {number}": draw.normal(size=2)} for number in range(4)]
        distances = []
        for rounds in schedules(plan):
            for directions in ([0, 0, 0, 0], [0, np.pi, 0, np.pi], [0, 0.4, 0.9, 2.0]):
                updates = [dict(own) for own in others]
                for number in rounds:
                    updates[number]["ann"] = 7 * np.array([np.cos(directions[number]), np.sin(directions[number])])
                moved = sums_of(plan, updates) - sums_of(plan, updates, without="ann")
                distances.append(np.sqrt(np.trace(moved.T @ precision @ moved)))
        mu = np.sqrt(2 * plan.noise.guarantee.rho)
        assert max(distances) <= mu * (1 + 1e-9)
        assert max(distances) >= 0.95 * mu

    def test_all_schedules_within_the_limits_are_allowed(self) -> None:
        def kept(rounds: list[int], most: int, separation: int) -> bool:
            return len(rounds) <= most and all(b - a >= separation for a, b in itertools.pairwise(rounds))

        for most, separation in itertools.product([1, 2, 3], [1, 2, 3]):
            if most * 12 < 4 * 3:
                continue
            plan = small(participations=most, separation=separation, mechanism="input")
            every = [list(some) for size in range(5) for some in itertools.combinations(range(4), size)]
            assert sorted(schedules(plan)) == sorted(some for some in every if kept(some, most, separation))

    def test_integers_have_the_sensitivity_of_their_plan(self) -> None:
        """The tree over four rounds, with 0 or 1 for each pair of block and round: vectors of the bound's length in all
        allowed rounds move the blocks' sums by at most the plan's noise allows."""
        plan = small(participations=2, separation=2, bits=16)
        assert isinstance(plan.noise, et.Plan) and plan.noise.mechanism.startswith("smooth")
        covariance = [[plan.noise.covariance(row, column) for column in range(1, 5)] for row in range(1, 5)]
        precision = np.linalg.inv(np.array(covariance))
        distances = []
        for rounds in schedules(small(participations=2, separation=2)):
            for angle in (0, 0.5, np.pi):
                sums = np.zeros((4, 2))
                for turn, number in enumerate(rounds):
                    own = plan.encode(9 * np.array([np.cos(turn * angle), np.sin(turn * angle)]))
                    sums[number] = plan.lift(own)
                moved = np.cumsum(sums, axis=0)
                distances.append(np.trace(moved.T @ precision @ moved) / 2)
        assert 0.5 * plan.noise.guarantee.rho <= max(distances) <= plan.noise.guarantee.rho


class TestPlan:
    def test_the_guarantee_is_that_of_the_budget(self) -> None:
        plan = federated.plan_rounds(60, population=300, cohort=30, epsilon=2.0, delta=1e-4, momentum=0.9)
        assert (plan.separation, plan.participations) == (10, 6)
        assert plan.epsilon_at(1e-4) == pytest.approx(2.0, abs=1e-6) and plan.epsilon_at(1e-4) <= 2.0
        assert plan.noise.mechanism.startswith("blt")
        assert federated.RoundsPlan.from_json(plan.to_json()) == plan

    def test_without_an_end_the_error_grows_slowly(self) -> None:
        plan = federated.plan_rounds(None, population=10**6, cohort=10**4, participations=16, epsilon=8.0, delta=1e-6)
        errors = [plan.noise.std_error(step) for step in (1000, 10**6)]
        assert errors[1] < 2 * errors[0]
        server = federated.Server(plan, PUBLIC, "no end", np.zeros(3))
        assert server.step(np.zeros(3), []).shape == (3,)

    @pytest.mark.parametrize(
        ("more", "text"),
        [
            ({"separation": 5}, "separation must be 1 to 4"),
            ({"participations": 1, "population": 9, "separation": 2}, "4 rounds of 3 users are more than 9"),
            ({"cohort": 13}, "cohort must be"),
            ({"momentum": 1.0}, "momentum"),
            ({"learning_rate": [1.0]}, "learning rates"),
            ({"bits": 3}, "bits"),
        ],
    )
    def test_senseless_plans_are_refused(self, more: dict[str, Any], text: str) -> None:
        with pytest.raises(et.InvalidError, match=text):
            small(**more)

    @pytest.mark.parametrize("bits", [None, 20])
    def test_edited_plans_are_refused(self, bits: int | None) -> None:
        plan = federated.plan_rounds(6, population=12, cohort=2, rho=0.5, bits=bits)
        edits: dict[str, Any] = {"participations": 6, "separation": 1, "rounds": 7, "norm": 2.0, "bits": 16}
        for field, value in edits.items():
            if bits is None and field == "bits" or bits is not None and field == "norm":
                continue  # a norm is the unit of the grid
            with pytest.raises(et.InvalidError, match="but its noise is planned for"):
                dataclasses.replace(plan, **{field: value})
            with pytest.raises(et.InvalidError, match="but its noise is planned for"):
                federated.RoundsPlan.from_json(json.dumps(json.loads(plan.to_json()) | {field: value}))

    def test_a_run_without_an_end_needs_participations(self) -> None:
        with pytest.raises(et.InvalidError, match="participations is missing"):
            federated.plan_rounds(None, population=10, cohort=2, rho=0.1)

    def test_clipping(self) -> None:
        plan = small(norm=2.0)
        assert plan.clip([3.0, 4.0]).tolist() == pytest.approx([1.2, 1.6])
        assert plan.clip([0.3, 0.4]).tolist() == [0.3, 0.4]
        assert plan.clip([np.nan, 1.0]).tolist() == [0, 0] and plan.clip([np.inf, 1.0]).tolist() == [0, 0]
        assert np.linalg.norm(plan.clip([1e300, -1e300])) == pytest.approx(2.0)


class TestGrid:
    @pytest.mark.parametrize("bits", [8, 16, 32, 40])
    def test_updates_keep_the_bound_and_sums_come_back(self, bits: int) -> None:
        plan = small(bits=bits, norm=0.7)
        draw = np.random.default_rng(bits)
        updates = [draw.normal(size=50) * scale for scale in (0.001, 0.1, 100.0)]
        encoded = [plan.encode(update) for update in updates]
        for update, own in zip(updates, encoded, strict=True):
            assert own.max() < 2**bits
            lifted = plan.lift(own)
            assert int(lifted @ lifted) <= plan.bound**2
            error = lifted * plan.norm / plan.bound - plan.clip(update)
            assert np.abs(error).max() <= 1.01 * plan.norm / plan.bound
        masks = draw.integers(0, 2**bits, size=50, dtype=np.uint64)
        masked = (encoded[0] + masks, encoded[1], encoded[2] - masks)
        total = sum(masked[1:], masked[0]) & np.uint64(2**bits - 1)
        assert (plan.lift(total) == sum(plan.lift(own) for own in encoded)).all()
        assert plan.cohort * plan.bound < 2 ** (bits - 1)

    def test_the_largest_sums_do_not_wrap(self) -> None:
        plan = small(bits=8)
        for sign in (1, -1):
            total = sum(plan.encode([sign * 5.0]).astype(np.int64) for _ in range(3))
            assert plan.lift(np.atleast_1d(total))[0] == 3 * sign * plan.bound

    def test_more_users_than_the_cohort_are_refused(self) -> None:
        server = federated.Server(small(bits=16), PUBLIC, "many", np.zeros(2))
        with pytest.raises(et.InvalidError, match="could wrap"):
            server.step(np.zeros(2, np.int64), range(4))

    def test_the_noise_has_the_planned_size(self) -> None:
        """The variance of the sums after one and two rounds, over 150,000 coordinates. A tolerance of 1.1 % is 3.0
        standard deviations of a mean of that number of squares: a level of 2.7e-3 for each of the two comparisons."""
        plan = small(bits=32)
        server = federated.Server(plan, PUBLIC, "size", np.zeros(150_000))
        for number in (1, 2):
            server.step(np.zeros(150_000, np.int64), [])
            expected = (plan.noise.std_error(number) * plan.norm / plan.bound) ** 2
            assert np.mean((server.weights * plan.cohort) ** 2) == pytest.approx(expected, rel=0.011)


class TestServer:
    def test_sums_are_divided_by_the_planned_cohort_and_momentum_is_that_of_sgd(self) -> None:
        rates = [1.0, 2.0, 1.0, 1.0]
        plan = small(momentum=0.5, learning_rate=rates, norm=3.0, mechanism="input")
        server = federated.Server(plan, PUBLIC, "momentum", np.zeros(2))
        lane = server._lane

        def exact(total: Any, users: int, again: bool) -> Any:
            lane.skip(again=False)
            return total

        lane.release = exact  # type: ignore[method-assign]
        assert server.step([3.0, 0.0], ["a"]).tolist() == [1.0, 0.0]
        assert server.step([0.0, 0.0], []).tolist() == [2.0, 0.0]  # 1 + 2 · 0.5

    def test_a_user_is_the_same_as_a_number_or_text(self) -> None:
        server = federated.Server(small(), PUBLIC, "ids", np.zeros(2))
        server.step_updates({5: [0.1, 0.0]})
        with pytest.raises(et.InvalidError, match="user 5 may not take part in round 2.*last in round 1"):
            server.step_updates({"5": [0.1, 0.0]})
        with pytest.raises(et.InvalidError, match="listed twice"):
            server.step(np.zeros(2), [7, "7"])
        assert server.round == 1 and server.eligible([6, np.int64(5)]) == [6]

    @pytest.mark.parametrize("total", [[3.1, 0.0], [np.nan, 0.0], [np.inf, 0.0], [1.0]])
    def test_impossible_sums_are_refused_before_they_are_recorded(self, total: list[float]) -> None:
        server = federated.Server(small(), PUBLIC, "sums", np.zeros(2))
        with pytest.raises(et.InvalidError):
            server.step(total, ["a", "b", "c"])
        assert server.step([1.0, 0.0], ["a"]).shape == (2,)

    def test_samples_are_eligible_and_repeat(self) -> None:
        server = federated.Server(small(), PUBLIC, "samples", np.zeros(2))
        for _ in range(4):
            cohort = server.sample(range(12))
            assert len(cohort) == 3 and cohort == server.sample(range(12))
            server.step(np.zeros(2), cohort)
        with pytest.raises(et.HorizonExhausted):
            server.step(np.zeros(2), [])

    def test_the_noise_is_that_of_the_plan(self) -> None:
        plan = small()
        assert isinstance(plan.noise, et.training.VectorPlan)
        server = federated.Server(plan, PUBLIC, "noise", np.zeros(5))
        own = et.VectorNoise(plan.noise, PUBLIC, "noise", coordinates=5, dtype="float64")
        expected = own.add_next(np.full(5, 0.1)) / 3
        assert (server.step(np.full(5, 0.1), ["a"]) == expected).all()

    def test_the_epsilon_so_far(self) -> None:
        plan = small(rho=None, epsilon=2.0, delta=1e-3)
        server = federated.Server(plan, PUBLIC, "spent", np.zeros(2))
        spent = [server.epsilon_at(1e-3)]
        for _ in range(4):
            server.skip()
            spent.append(server.epsilon_at(1e-3))
        assert spent[0] == 0 and spent == sorted(spent) and spent[-1] == pytest.approx(2.0)


def adaptive(**more: Any) -> federated.RoundsPlan:
    return small(adaptive_clipping=federated.AdaptiveClipping(initial=0.5, share=0.2), **more)


class TestAdaptiveClipping:
    @pytest.mark.parametrize("threshold", [1e-3, 0.5, 40.0])
    def test_vectors_have_at_most_the_norm_and_use_it(self, threshold: float) -> None:
        draw = np.random.default_rng(4)
        for bits in (None, 16, 32):
            plan = adaptive(norm=2.5, bits=bits)
            lengths = []
            for scale in threshold * np.array([0, 1e-9, 0.5, 1 - 1e-9, 1, 1 + 1e-9, 3, 1e12]):
                direction = draw.normal(size=7)
                update = direction / np.linalg.norm(direction) * scale
                lengths.append(np.linalg.norm(plan.clip(update, threshold)) / plan.norm)
                if bits:
                    lengths.append(np.linalg.norm(plan.lift(plan.encode(update, threshold)) / plan.bound))
            assert 0.99 < max(lengths) <= 1
        assert not plan.clip([np.nan, 1.0], threshold).any()

    @pytest.mark.parametrize("bits", [None, 24])
    def test_the_server_is_the_clipping_object_with_its_noise(self, bits: int | None) -> None:
        plan = adaptive(bits=bits, learning_rate=0.5, momentum=0.5)
        server = federated.Server(plan, PUBLIC, "twin", np.zeros(3))
        twin, weights, momentum = plan.clipping(3), np.zeros(3), np.zeros(3)
        assert twin is not None
        noisy: list[Any] = []
        release = server._lane.release

        def watched(total: Any, users: int, again: bool) -> Any:
            noisy.append(release(total, users, again))
            return noisy[-1]

        server._lane.release = watched  # type: ignore[method-assign]
        for number in range(4):
            assert server.threshold == twin.threshold
            cohort = server.sample(range(12))
            server.step_updates({user: np.full(3, float(number)) for user in cohort})
            momentum = 0.5 * momentum + twin.decode(noisy[-1])
            weights = weights + 0.5 * momentum
            twin.update(noisy[-1])
        np.testing.assert_array_equal(server.weights, weights)

    def test_sums_of_clipped_vectors_are_those_of_updates(self) -> None:
        updates: dict[Any, Any] = {user: np.full(2, user) for user in range(3)}
        one, other = (federated.Server(adaptive(), PUBLIC, "sums", np.zeros(2)) for _ in range(2))
        total = sum(one.clip(update) for update in updates.values())
        np.testing.assert_array_equal(one.step(total, updates), other.step_updates(updates))
        with pytest.raises(et.InvalidError, match="2 numbers instead of 3"):
            one.step(np.zeros(2), [4])

    def test_the_threshold_needs_a_plan_for_it(self) -> None:
        with pytest.raises(et.InvalidError, match="fixed norm"):
            small().clip([1.0], 2.0)
        with pytest.raises(et.InvalidError, match="threshold is missing"):
            adaptive().clip([1.0])
        assert federated.RoundsPlan.from_json(adaptive().to_json()) == adaptive() != small()


def run(plan: federated.RoundsPlan, key: et.SecretKey, folder: Path | None, stops: bool) -> list[Any]:
    """The weights of four rounds; `stops`: every round in a new server."""
    draw = np.random.default_rng(5)
    updates = draw.normal(size=(4, 3, 6))
    initial: list[Any] = [np.zeros((2, 2), np.float32), np.ones(2)]
    weights = []
    server = federated.Server(plan, key, "resumed", initial, folder=folder)
    for number in range(4):
        if stops:
            server.close()
            server = federated.Server(plan, key, "resumed", initial, folder=folder)
        cohort = server.sample(range(12))
        weights.append(server.step_updates(dict(zip(cohort, updates[number], strict=True))))
    return [np.concatenate([part.ravel() for part in each]) for each in weights]


class TestResumption:
    @pytest.mark.parametrize("bits", [None, 24])
    @pytest.mark.parametrize("adapts", [False, True])
    def test_bit_for_bit(self, tmp_path: Path, bits: int | None, adapts: bool) -> None:
        plan, key = (adaptive if adapts else small)(momentum=0.9, bits=bits), et.SecretKey.generate()
        whole = run(plan, PUBLIC, None, stops=False)
        resumed = run(plan, PUBLIC, tmp_path / "run", stops=True)
        assert np.array_equal(whole, resumed)
        assert (tmp_path / "run" / "state.npz").stat().st_mode & 0o077 == 0
        assert (tmp_path / "run" / "rounds.sqlite").stat().st_mode & 0o077 == 0
        run(plan, key, tmp_path / "other", stops=True)

    @pytest.mark.parametrize("bits", [None, 24])
    def test_a_crash_before_the_state_is_saved(
        self, tmp_path: Path, bits: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same sum gives the same weights, another one is refused, and a skipped round is passed over."""
        plan, key = small(bits=bits), et.SecretKey.generate()
        key.save(tmp_path / "key")
        key = et.SecretKey.load(tmp_path / "key")

        def opened() -> federated.Server:
            return federated.Server(plan, key, "crash", np.zeros(3), folder=tmp_path / "run")

        server = opened()
        server.step_updates({"a": [0.1, 0.2, 0.3]})
        self.fail_to_save(server, {"b": [0.3, 0.0, 0.0]}, monkeypatch)
        saved = (tmp_path / "run" / "state.npz").read_bytes()
        with pytest.raises(et.StateError, match="round 2 was begun with another sum"):
            opened().step_updates({"c": [0.0, 0.3, 0.0]})
        second = opened().step_updates({"b": [0.3, 0.0, 0.0]})
        (tmp_path / "run" / "state.npz").write_bytes(saved)
        assert (opened().step_updates({"b": [0.3, 0.0, 0.0]}) == second).all()
        self.fail_to_save(opened(), {"c": [0.0, 0.3, 0.0]}, monkeypatch)
        server = opened()
        server.skip()
        fourth = server.step_updates({"d": [0.0, 0.3, 0.0]})
        assert server.round == 4 and np.isfinite(fourth).all()
        assert server.eligible(["a", "b", "c", "d"]) == []

    @staticmethod
    def fail_to_save(server: federated.Server, updates: dict[Any, Any], patch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise OSError("disk full")

        with patch.context() as patched:
            patched.setattr(_server, "_write", fail)
            with pytest.raises(OSError, match="disk full"):
                server.step_updates(updates)
        with pytest.raises(et.StateError, match="round . ended before its state was saved: open the server again"):
            server.step_updates(updates)
        server.close()

    @pytest.mark.parametrize("bits", [None, 24])
    def test_a_released_round_cannot_be_skipped(self, bits: int | None) -> None:
        """In running sums its users would be present in some releases and absent in later ones."""
        server = federated.Server(small(bits=bits), et.SecretKey.generate(), "skip", np.zeros(3))
        old = server.state_dict()
        first = server.step_updates({"a": [0.1, 0.2, 0.3]})
        server.load_state_dict(old)
        with pytest.raises(et.StateError, match="round 1 was completed"):
            server.skip()
        assert (server.step_updates({"a": [0.1, 0.2, 0.3]}) == first).all()
        server.skip()
        skipped = server.state_dict()
        server.step_updates({"b": [0.3, 0.0, 0.0]})
        server.load_state_dict(old)
        server.step_updates({"a": [0.1, 0.2, 0.3]})
        with pytest.raises(et.StateError, match="round 2 was skipped"):
            server.step_updates({"b": [0.3, 0.0, 0.0]})
        server.skip()
        assert (server.state_dict()["noise"] == skipped["noise"]).all()
        with pytest.raises(et.StateError, match="round 3 was begun with another sum"):
            server.step_updates({"c": [0.0, 0.3, 0.0]})
        server.step_updates({"b": [0.3, 0.0, 0.0]})

    def test_copies_draw_no_noise_for_two_sums(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Copies of a folder in which a round was begun pass over it, and continue differently."""
        plan, key = small(bits=24), et.SecretKey.generate()
        server = federated.Server(plan, key, "copy", np.zeros(3), folder=tmp_path / "a")
        server.step_updates({"a": [0.1, 0.2, 0.3]})
        self.fail_to_save(server, {"b": [0.3, 0.0, 0.0]}, monkeypatch)
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        first, second = (federated.Server(plan, key, "copy", np.zeros(3), folder=tmp_path / name) for name in "ab")
        first.skip()
        second.skip()
        first.step_updates({"c": [0.0, 0.3, 0.0]})
        with pytest.raises(et.EvertallyError):
            second.step_updates({"d": [0.3, 0.0, 0.0]})

    def test_an_old_copy_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        """It lacks users whose updates are in sums that were released."""
        plan, key = small(bits=24), et.SecretKey.generate()
        federated.Server(plan, key, "old", np.zeros(3), folder=tmp_path / "new").close()
        shutil.copytree(tmp_path / "new", tmp_path / "old")
        federated.Server(plan, key, "old", np.zeros(3), folder=tmp_path / "new").step_updates({"a": [0.1, 0.2, 0.3]})
        for attempt in range(4):  # a refusal leaves no round that another attempt would repeat
            old = federated.Server(plan, key, "old", np.zeros(3), folder=tmp_path / "old")
            with pytest.raises(et.StateError, match="read . of the LazyVector .* was made already"):
                old.skip() if attempt % 2 == 0 else old.step_updates({"b": [0.3, 0.0, 0.0]})
            old.close()

    @pytest.mark.parametrize("bits", [None, 24])
    def test_an_interrupted_round_is_not_summed_twice(self, bits: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
        key = et.SecretKey.generate()
        update: dict[Any, Any] = {"a": [0.1, 0.2, 0.3]}
        server = federated.Server(small(bits=bits), key, "cut", np.zeros(3))
        start = server.state_dict()
        lane = server._lane
        noise = "_noise" if bits is None else "_sums"

        class Cut:
            """Interrupts where a round reads its noise, after its sum was added."""

            def __init__(self, inner: object) -> None:
                self.inner = inner

            def __getattr__(self, name: str) -> object:
                if name in ("read", "add_next"):
                    raise KeyboardInterrupt
                return getattr(self.inner, name)

        monkeypatch.setattr(lane, noise, Cut(getattr(lane, noise)))
        with pytest.raises(KeyboardInterrupt):
            server.step_updates(update)
        for refused in (lambda: server.step_updates(update), server.skip, server.state_dict):
            with pytest.raises(et.StateError, match="round 1 ended before its state was saved"):
                refused()
        server.load_state_dict(start)
        again = server.step_updates(update)
        with et.allow_noise_reuse("a comparison"):
            other = federated.Server(small(bits=bits), key, "cut", np.zeros(3)).step_updates(update)
        assert (again == other).all()

    def test_limits_hold_across_restarts(self, tmp_path: Path) -> None:
        plan = small()
        for number in range(3):
            server = federated.Server(plan, PUBLIC, "limits", np.zeros(2), folder=tmp_path)
            server.step_updates({number: [0.1, 0.1]})
            server.close()
        server = federated.Server(plan, PUBLIC, "limits", np.zeros(2), folder=tmp_path)
        assert server.eligible(range(5)) == [3, 4]
        with pytest.raises(et.StateError, match="another run"):
            federated.Server(plan, PUBLIC, "other name", np.zeros(2), folder=tmp_path)

    def test_a_state_without_its_record_is_refused(self, tmp_path: Path) -> None:
        server = federated.Server(small(), PUBLIC, "state", np.zeros(2))
        server.step_updates({1: [0.1, 0.1]})
        fresh = federated.Server(small(), PUBLIC, "state", np.zeros(2))
        with pytest.raises(et.StateError, match="record of participations ends at round 0"):
            fresh.load_state_dict(server.state_dict())
        state = server.state_dict()
        server.step_updates({2: [0.1, 0.1]})
        server.load_state_dict(state)
        assert server.round == 1 and server.eligible([1, 2, 3]) == [2, 3]

    def test_kill_9_leaves_the_record_of_every_released_round(self, tmp_path: Path) -> None:
        script = f"""
import numpy as np, os, evertally as et
from evertally.training import federated
from evertally.training.federated import _server
plan = federated.plan_rounds(4, population=12, cohort=3, rho=0.5)
key = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
server = federated.Server(plan, key, "kill", np.zeros(2), folder={str(tmp_path)!r})
for user in "abc":
    server.step_updates({{user: [0.1, 0.1]}})
    print(user, flush=True)
    if user == "b":
        os.kill(os.getpid(), 9)
"""
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert ended.returncode == -9 and ended.stdout.split() == ["a", "b"]
        server = federated.Server(small(), PUBLIC, "kill", np.zeros(2), folder=tmp_path)
        assert server.round == 2 and server.eligible("abc") == ["c"]

    @pytest.mark.parametrize("name", ["state.npz", "rounds.sqlite"])
    def test_damaged_files_are_refused(self, tmp_path: Path, name: str) -> None:
        server = federated.Server(small(), PUBLIC, "damaged", np.zeros(2), folder=tmp_path)
        server.step_updates({1: [0.1, 0.1]})
        server.close()
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b"no" + content[2 : len(content) // 2])
        with pytest.raises(et.StateError, match="damaged"):
            federated.Server(small(), PUBLIC, "damaged", np.zeros(2), folder=tmp_path)
