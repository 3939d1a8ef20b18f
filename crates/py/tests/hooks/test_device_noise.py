"""Noise that XLA computes has the bytes of the host, for every mechanism, range, step and number of devices."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import evertally as et
import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import evertally.jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax._src import compilation_cache  # noqa: E402
from evertally import _evertally  # noqa: E402
from evertally.jax import NoiseState, clip_and_sum, correlated_noise  # noqa: E402
from evertally.jax import _device, _keystream, _normals, _tails  # noqa: E402

STEPS = 21
CIPHERS = ["aes-128-ctr", "chacha8", "chacha20"]
MECHANISMS = [
    "input",
    "output",
    "binary",
    "kary(k=5)",
    "subtract(k=4)",
    "smooth(h=9,zeros=4)",
    "path-sum(levels=unit)",
    "honaker-online",
    "blt(buffers=3)",
    "normalized-blt(buffers=2)",
    "banded-sqrt(bands=4)",
    "banded-inverse-sqrt(bands=4)",
    "epoch-bands(bands=3)",
]
# Each is compiled again, which takes most of the time.
SERIES = [(mechanism, "increments", "keep") for mechanism in MECHANISMS]
SERIES += [(mechanism, "running-sums", "recompute") for mechanism in MECHANISMS[::4]]
RANGES = [(0, 1), (255, 2), (777, 5000), (1 << 31, 600), ((1 << 32) - 300, 300)]
ZERO = jnp.uint32(0)


def test_key(seed: int = 3) -> et.SecretKey:
    """A test key, whose noise is not logged: it may be made twice."""
    return et.SecretKey.insecure_from_test_seed(et.TestSeed(seed))


test_key.__test__ = False  # type: ignore[attr-defined]


def plan_of(mechanism: str, steps: int = STEPS, **more: Any) -> et.training.VectorPlan:
    return et.training.plan_vector(steps, rho=0.5, mechanism=mechanism, cipher=more.pop("cipher", "chacha8"), **more)


def same(found: Any, expected: Any) -> bool:
    return np.asarray(found, np.float32).tobytes() == np.asarray(expected, np.float32).tobytes()


class Steps:
    """The steps of a stream on the device, without a transformation."""

    def __init__(
        self, plan: et.training.VectorPlan, first: int, count: int, memory: str = "keep", traced: bool = False
    ) -> None:
        self.device = _device.Device(plan, test_key(), "run", memory)
        self.first, self.count, shape = first, count, self.device.shape
        self.kept = jnp.zeros((shape.buffers, count), jnp.uint32)
        if traced:
            made = lambda order, kept, first: _device.noise_of(shape, order, kept, first, count)
            self.made = lambda order, kept: jax.jit(made)(order, kept, jnp.uint32(first))
        else:
            self.made = jax.jit(lambda order, kept: _device.noise_of(shape, order, kept, first, count))

    def next(self, step: int) -> Any:
        tag = self.device.tag(step - 1, self.count)
        order = self.device.order(self.count, self.count, np.int32(step - 1), np.zeros(2, np.uint32), np.zeros(2), tag)
        noise, self.kept = self.made(jnp.asarray(order), self.kept)
        return noise


class TestBytes:
    @pytest.mark.parametrize("mechanism, series, memory", SERIES)
    def test_every_mechanism_has_the_bytes_of_the_host(self, mechanism: str, series: str, memory: str) -> None:
        plan = plan_of(mechanism, series=series)
        steps = Steps(plan, 1021, 300, memory)
        noise = et.VectorNoise(plan, test_key(), "run", coordinates=(1021, 1321), memory=memory)
        for step in range(1, STEPS + 1):
            assert same(steps.next(step), noise.next()), step

    @pytest.mark.parametrize(
        "mechanism, memory",
        [("smooth(h=9,zeros=4)", "recompute"), ("binary", "recompute"), ("banded-inverse-sqrt(bands=4)", "recompute")],
    )
    def test_increments_that_are_drawn_again(self, mechanism: str, memory: str) -> None:
        plan = plan_of(mechanism)
        steps, noise = Steps(plan, 0, 100, memory), et.VectorNoise(plan, test_key(), "run", coordinates=100)
        assert steps.device.shape.buffers == 0
        made = [noise.next() for _ in range(STEPS)]
        for step in (1, 2, 17, 3, STEPS, 16):
            assert same(steps.next(step), made[step - 1]), step

    @pytest.mark.parametrize("first, count", RANGES)
    @pytest.mark.parametrize("cipher", CIPHERS[1:])
    def test_every_cipher_and_range(self, cipher: str, first: int, count: int) -> None:
        plan = plan_of("input", 2, cipher=cipher)
        noise = et.VectorNoise(plan, test_key(), "run", coordinates=(first, first + count))
        expected = [noise.next() for _ in range(2)]
        for traced in (False, True):
            steps = Steps(plan, first, count, traced=traced)
            for step in (1, 2):
                assert same(steps.next(step), expected[step - 1]), (step, traced)

    @pytest.mark.parametrize("first, count", RANGES[2::2])
    def test_aes(self, first: int, count: int) -> None:
        self.test_every_cipher_and_range(CIPHERS[0], first, count)

    @pytest.mark.parametrize("cipher, mebi", [("chacha8", 2), ("chacha20", 1), ("aes-128-ctr", 1)])
    def test_millions_of_normals_with_their_tails(self, cipher: str, mebi: int) -> None:
        plan, count = plan_of("input", 2, cipher=cipher), mebi << 20
        steps, noise = Steps(plan, 5, count), et.VectorNoise(plan, test_key(), "run", coordinates=(5, count + 5))
        for step in (1, 2):
            expected = noise.next()
            # 32 in the mean of a mebi; 8 or fewer have a chance below 10⁻⁶.
            assert (np.abs(expected) > 4.17 * plan.sigma).sum() > 8 * mebi
            assert same(steps.next(step), expected)


class TestNormals:
    def words(self) -> np.ndarray:
        """Words around every boundary of octaves, halves and the tail, with both signs; and random ones."""
        edges = [
            m + step
            for shift in range(32)
            for m in (2 << shift >> 1, 3 << shift >> 1, 5 << shift >> 2, 7 << shift >> 2)
            for step in range(-4, 5)
        ]
        both = np.array([word & 0xFFFFFFFF for edge in edges for word in (edge, ~edge)], np.uint32)
        return np.concatenate([both, np.random.default_rng(1).integers(0, 2**32, 1 << 22, dtype=np.uint32)])

    def polynomials(self, words: np.ndarray) -> np.ndarray:
        """As on the host: one NumPy operation after the other."""
        magnitude = (words << np.uint32(1)).astype(np.float64)
        octave = (31 - np.floor(np.log2(magnitude))).astype(np.uint32)
        offset = words << np.uint32(2) << octave
        row = octave | offset >> np.uint32(27) & np.uint32(16)
        u = offset.view(np.int32).astype(np.float32) * np.float32(2.0**-31)
        highest, *rest = (column[row] for column in reversed(_normals.columns()))
        total = highest
        for coefficient in rest:
            total = total * u
            total = total + coefficient
        return np.asarray(total.view(np.uint32) ^ words & np.uint32(1 << 31)).view(np.float32)

    def test_polynomials_round_every_operation(self) -> None:
        words = self.words()
        words = words[(words << np.uint32(1)) >= 1 << 17]
        assert same(jax.jit(_normals.of_words)(words, ZERO), self.polynomials(words))

    def test_without_the_word_that_is_zero_products_would_be_fused(self) -> None:
        """Why the word is needed. If this fails, compilers no longer fuse these operations."""
        words = self.words()
        words = words[(words << np.uint32(1)) >= 1 << 17]
        constant = jax.jit(lambda words: _normals.of_words(words, np.uint32(0)))(words)
        assert jax.default_backend() != "cpu" or not same(constant, self.polynomials(words))

    def test_tails_are_those_of_the_quantile_function(self) -> None:
        """AS 241 in Python's doubles."""
        import math

        def quantile(tail: float) -> float:
            r = math.sqrt(-math.log(tail))
            (numerator, denominator), x = (_tails._rationals()[r > 5.0]), r - (1.6 if r <= 5.0 else 5.0)
            values = []
            for row in (numerator, denominator):
                total = 0.0
                for coefficient in reversed(row):
                    total = total * x + coefficient
                values.append(total)
            return values[0] / values[1]

        rng = np.random.default_rng(2)
        words = rng.integers(0, 1 << 16, 3000, dtype=np.uint32) >> rng.integers(0, 17, 3000, dtype=np.uint32)
        more = [int.from_bytes(rng.bytes(16), "little") >> int(rng.integers(0, 128)) for _ in words]
        more[:4] = [0, 1, (1 << 128) - 1, 1 << 127]
        words[:4] = 0
        parts = [jnp.asarray([number >> 32 * place & 0xFFFFFFFF for number in more], jnp.uint32) for place in range(4)]
        found = np.asarray(jax.jit(_tails.of_rare_words)(words, parts, ZERO))
        tails = [(float(word) + (float(number) + 0.5) * 2.0**-128) * 2.0**-32 for word, number in zip(words, more)]
        expected = np.array([quantile(tail) for tail in tails])
        # The logarithm of Python's standard library may differ in its last bit.
        np.testing.assert_allclose(found, expected, rtol=6e-8)
        assert found.max() > 14.6


class TestKeystream:
    def test_the_s_box_is_that_of_its_definition(self) -> None:
        every = jnp.arange(256, dtype=jnp.uint32)
        planes = [(every >> bit & 1) * jnp.uint32(0xFFFFFFFF) for bit in range(8)]
        found = sum((plane & 1) << bit for bit, plane in enumerate(_keystream._substituted(planes)))
        assert found.tolist() == _keystream.S_BOX and _keystream.S_BOX[:4] == [0x63, 0x7C, 0x77, 0x7B]

    @pytest.mark.parametrize(
        "cipher, first, tail",
        [
            ("aes-128-ctr", [0x26E06883, 0x682EF2EB], 0xF34AC38C59F70B0F621E0B2D341B9ADE),
            ("chacha8", [0xBA73ECEA, 0x69EDDF21], 0x331DD170D817A32726E08708C2712151),
            ("chacha20", [0xBA316892, 0xB17EEF6E], 0xD8491C9DF5DB85A0EAA48B6732F58FE9),
        ],
    )
    def test_words_are_the_frozen_ones(self, cipher: str, first: list[int], tail: int) -> None:
        key = jnp.asarray(_keystream.expanded(cipher, bytes((3 * i + 1) % 256 for i in range(32))))
        node = _keystream.Node(*(jnp.uint32(part) for part in (5, 0x89ABCDEF, 0x01234567)))
        words = _keystream.words(cipher, key, node, jnp.uint32(0), 1)
        assert words[:2].tolist() == first
        found = _keystream.tails(cipher, key, node, jnp.array([1_000_003], jnp.uint32))
        assert sum(int(word[0]) << 32 * place for place, word in enumerate(found)) == tail


PARAMS = {"weights": jnp.ones((30, 40)), "bias": jnp.zeros(77)}
SIZE = 1277


def gradients(step: int) -> Any:
    rng = np.random.default_rng(step)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape, np.float32)), PARAMS)


def flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)])


class TestTransformation:
    @pytest.mark.parametrize("mechanism", ["blt(buffers=2)", "smooth(h=9,zeros=4)", "epoch-bands(bands=3)", "input"])
    def test_host_and_device_agree_and_any_state_goes_on(self, mechanism: str) -> None:
        plan = plan_of(mechanism)
        host, device = (correlated_noise(plan, test_key(), "run", on=on) for on in ("host", "device"))
        update = jax.jit(device.update)
        states, expected = [device.init(PARAMS)], []
        host_state = host.init(PARAMS)
        for step in range(STEPS):
            wanted, host_state = host.update(gradients(step), host_state)
            expected.append(flat(wanted))
            found, state = update(gradients(step), states[-1])
            assert same(flat(found), expected[-1]), step
            states.append(state)
        for step in (11, 4, 20, 0):
            kept = jax.tree.map(np.asarray, states[step])  # as in a checkpoint
            other = correlated_noise(plan, test_key(), "run", on="device")
            found, _ = other.update(gradients(step), jax.tree.map(jnp.asarray, kept))
            assert same(flat(found), expected[step])

    def test_scanned(self) -> None:
        plan = plan_of("blt(buffers=2)")
        noise = correlated_noise(plan, test_key(), "run", on="device")

        def body(state: Any, gradient: Any) -> Any:
            updates, state = noise.update(gradient, state)
            return state, updates

        stream = et.VectorNoise(plan, test_key(), "run", coordinates=50)
        state, found = jax.jit(lambda state: jax.lax.scan(body, state, jnp.ones((STEPS, 50))))(noise.init(jnp.ones(50)))
        for row in found:
            assert same(row, stream.add_next(np.ones(50, np.float32)))
        assert int(state.step) == STEPS
        with pytest.raises(Exception, match=f"all {STEPS} steps"):
            jax.block_until_ready(noise.update(jnp.ones(50), state))

    def test_other_gradients_are_refused_and_the_host_knows(self) -> None:
        plan, key = plan_of("blt(buffers=2)"), et.SecretKey.generate()
        noise = correlated_noise(plan, key, "run", on="device")
        first = noise.init(PARAMS)
        updates, second = noise.update(gradients(1), first)
        again, _ = correlated_noise(plan, key, "run", on="device").update(gradients(1), first)
        assert same(flat(updates), flat(again))
        for state in (first, jax.tree.map(jnp.array, first)):
            with pytest.raises(Exception, match="issued for other data"):
                jax.block_until_ready(jax.jit(noise.update)(gradients(2), state))
        with pytest.raises(et.StateError, match="was issued"):
            et.VectorNoise(plan, key, "run", coordinates=SIZE).next()
        updates, _ = noise.update(gradients(2), second)
        assert np.isfinite(flat(updates)).all()

    def test_states_of_others_are_refused(self) -> None:
        plan = plan_of("blt(buffers=2)")
        noise = correlated_noise(plan, test_key(), "run", on="device")
        _, state = noise.update(PARAMS, noise.init(PARAMS))
        other, _ = correlated_noise(plan, test_key(), "other", on="device"), None
        with pytest.raises(Exception, match="another key, name"):
            jax.block_until_ready(other.update(PARAMS, state))
        with pytest.raises(Exception, match="mixed with another step"):
            jax.block_until_ready(noise.update(PARAMS, state._replace(step=state.step + 1)))
        with pytest.raises(Exception, match="mixed with another step"):
            jax.block_until_ready(noise.update(PARAMS, NoiseState(state.step, noise.init(PARAMS).kept)))
        with pytest.raises(ValueError, match="restore the state of the same model"):
            noise.update(jnp.zeros(5), state)

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(et.InvalidError, match='on="host"'):
            correlated_noise(plan_of("sqrt"), test_key(), "run", on="device")
        plan = plan_of("input")
        with pytest.raises(ValueError, match="all that is kept is in the state"):
            correlated_noise(plan, test_key(), "run", on="device", saved=b"")
        with pytest.raises(ValueError, match="not on 'gpu'"):
            correlated_noise(plan, test_key(), "run", on="gpu")  # type: ignore[arg-type]
        noise = correlated_noise(plan, test_key(), "run", on="device")
        with pytest.raises(ValueError, match="optimizer's state"):
            noise.save()
        with pytest.raises(ValueError, match="same noise"):
            jax.vmap(lambda gradient: noise.update(gradient, noise.init(jnp.zeros(5)))[0])(jnp.zeros((2, 5)))

    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="XLA fuses products and sums on CPUs")
    def test_a_device_that_computes_other_bytes_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_normals, "product", lambda x, y, zero: x * y)
        with pytest.raises(RuntimeError, match='use on="host"'):
            _device.tried("chacha8", "cpu, fused")

    def test_the_key_is_in_no_program_and_no_cache(self, tmp_path: Path) -> None:
        plan = plan_of("blt(buffers=2)")
        noise = correlated_noise(plan, test_key(), "run", on="device")
        subkey = _evertally._Programs(plan, test_key(), "run", coordinates=SIZE).subkey()
        settings = {
            "jax_compilation_cache_dir": str(tmp_path),
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        before = {name: getattr(jax.config, name) for name in settings}
        try:
            for name, value in settings.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()
            state = noise.init(PARAMS)
            lowered = jax.jit(lambda gradient: noise.update(gradient, state)).lower(PARAMS)
            text = lowered.as_text() + lowered.compile().as_text()
            # Programs with callbacks are not cached. The noise by itself is.
            jax.block_until_ready(noise.update(PARAMS, state))
            kept = self.contents(tmp_path)
            # This would find a program that has the key as a constant.
            jax.block_until_ready(
                jax.jit(lambda words: words ^ np.frombuffer(subkey, np.uint32))(jnp.zeros(8, jnp.uint32))
            )
        finally:
            for name, value in before.items():
                jax.config.update(name, value)
            compilation_cache.reset_cache()
        assert kept and sum(len(content) for content in kept) > 10_000
        words = [int.from_bytes(subkey[place : place + 4], "little") for place in range(0, 32, 4)]
        assert not any(self.has(content, word) for content in kept for word in words)
        assert any(all(self.has(content, word) for word in words) for content in self.contents(tmp_path))
        for word in words:
            assert not any(form in text for form in (str(word), str(word - (1 << 32)), f"{word:08X}", f"{word:08x}"))
        assert not any(form in repr(noise) for form in (subkey.hex(), str(subkey)))

    @staticmethod
    def has(content: bytes, word: int) -> bool:
        """Whether the word occurs, as four bytes or as in protocol buffers, with seven bits per byte."""
        sevens = bytes((word >> 7 * place & 0x7F) | (0x80 if word >> 7 * place + 7 else 0) for place in range(5))
        return word.to_bytes(4, "little") in content or sevens.rstrip(b"\0") in content

    @staticmethod
    def contents(folder: Path) -> list[bytes]:
        files = [path for path in folder.rglob("*-cache")]
        return [compilation_cache.decompress_executable(path.read_bytes()) for path in files]


SHARDED = """
import evertally as et, evertally.jax, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
assert jax.device_count() == 4
key = et.SecretKey.insecure_from_test_seed(et.TestSeed(3))
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
params = {"a": jnp.ones((64, 40)), "b": jnp.zeros(77)}
for mechanism in ("blt(buffers=2)", "smooth(h=9,zeros=4)"):
    plan = et.training.plan_vector(9, rho=0.5, mechanism=mechanism, cipher="chacha8")
    one = et.jax.correlated_noise(plan, key, "run", on="device")
    noise = et.jax.correlated_noise(plan, key, "run", on="device", mesh=mesh)
    placed = {"a": jax.device_put(params["a"], NamedSharding(mesh, P("data", "model"))),
              "b": jax.device_put(params["b"], NamedSharding(mesh, P()))}
    update = jax.jit(noise.update)
    state, alone = noise.init(params), one.init(params)
    for step in range(9):
        found, state = update(placed, state)
        wanted, alone = one.update(params, alone)
        for name in params:
            assert np.asarray(found[name]).tobytes() == np.asarray(wanted[name]).tobytes(), (mechanism, step, name)
    vectors = state.kept.vectors
    assert len({shard.device for shard in vectors.addressable_shards}) == 4
    assert vectors.addressable_shards[0].data.shape[1] * 4 == vectors.shape[1]
print("the same")
"""


def test_devices_share_the_coordinates_and_the_bytes_are_the_same() -> None:
    path = os.pathsep.join(sys.path)
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    environment = os.environ | flags | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "the same" in done.stdout, done.stderr[-3000:]


def test_training_is_the_same_on_both() -> None:
    plan = plan_of("smooth(h=9,zeros=4)", norm=1.0)
    data = np.random.default_rng(1).standard_normal((STEPS, 8, 6), np.float32)

    def loss(params: Any, example: Any) -> Any:
        return jnp.tanh(example @ params["inner"]).sum() ** 2

    results = []
    for on in ("host", "device"):
        optimizer = optax.chain(correlated_noise(plan, test_key(), "run", on=on), optax.scale(1 / 8), optax.adam(0.05))

        @jax.jit
        def update(params: Any, state: Any, batch: Any, optimizer: Any = optimizer) -> Any:
            each = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, batch)
            updates, state = optimizer.update(clip_and_sum(each, plan.norm), state, params)
            return optax.apply_updates(params, updates), state

        params = {"inner": jnp.ones((6, 5))}
        state = optimizer.init(params)
        for batch in data:
            params, state = update(params, state, batch)
        results.append(np.asarray(params["inner"]).tobytes())
    assert results[0] == results[1]
