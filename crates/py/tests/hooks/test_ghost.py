"""Clipped sums without the gradients of single examples."""

import copy
import itertools
from typing import Any

import evertally
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from evertally.torch import clip_and_sum, clipped_gradients, grad_samples  # noqa: E402
from evertally.torch._gradients import clipped_sums  # noqa: E402
from evertally.torch._layers import Formed, Products, Rows  # noqa: E402
from torch import nn  # noqa: E402

EXAMPLES, CLASSES = 12, 4
LOSS = nn.functional.cross_entropy


class Language(nn.Module):
    """A table that is looked up twice, and is also the last layer if it is tied; a layer used twice."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(9, 40, padding_idx=0), nn.Embedding(6, 40)
        self.inner, self.norm, self.outer = nn.Linear(40, 40), nn.LayerNorm(40), nn.Linear(40, 9, bias=False)
        if tied:
            self.outer.weight = self.words.weight

    def forward(self, numbers: Any) -> Any:
        seen = self.words(numbers) + self.places(torch.arange(numbers.shape[1])) + self.words(numbers.flip(1))
        return self.outer(self.norm(torch.tanh(self.inner(torch.tanh(self.inner(seen)))))).mean(dim=1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(9, 16), nn.Linear(16, CLASSES)
        self.layer = nn.TransformerEncoderLayer(16, 2, 64, batch_first=True, dropout=0.0)

    def forward(self, numbers: Any) -> Any:
        return self.out(self.layer(self.words(numbers)).mean(dim=1))


class Otherwise(nn.Module):
    """Layers that are called with keywords, whose weight is used elsewhere, or that get time as the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(6, 20), nn.Linear(20, 20), nn.Linear(20, CLASSES)
        self.unused, self.frozen = nn.Linear(3, 3), nn.Linear(20, 20)
        self.frozen.requires_grad_(False)

    def forward(self, inputs: Any) -> Any:
        seen = torch.tanh(self.one(input=inputs)).transpose(0, 1)
        seen = self.frozen(self.two(seen)) + nn.functional.linear(seen, self.two.weight)
        return self.three(seen).sum(dim=0)


class Centred(nn.Module):
    """Mixes the examples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, CLASSES)

    def forward(self, inputs: Any) -> Any:
        return self.layer(inputs - 0.5 * inputs.mean(dim=0))


def pictures(*layers: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, CLASSES))


def words(length: int = 6) -> Any:
    return torch.randint(0, 9, (EXAMPLES, length))


NETWORKS: dict[str, Any] = {
    "dense": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, CLASSES)),
        lambda: torch.randn(EXAMPLES, 6),
    ),
    "time": (
        lambda: pictures(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 30), features=90),
        lambda: torch.randn(EXAMPLES, 3, 20),
    ),
    "convolutions": (
        lambda: pictures(
            nn.Conv2d(3, 8, 3, padding=1, stride=2),
            nn.GroupNorm(2, 8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3, groups=4, dilation=2, padding="same"),
            nn.Conv2d(8, 64, 4),
            nn.Conv2d(64, 64, 1),
            features=64,
        ),
        lambda: torch.randn(EXAMPLES, 3, 8, 8),
    ),
    "along a line": (
        lambda: pictures(
            nn.Conv1d(8, 32, 5, padding=2, padding_mode="circular"),
            nn.Tanh(),
            nn.Conv1d(32, 32, 9, groups=2),
            features=64,
        ),
        lambda: torch.randn(EXAMPLES, 8, 10),
    ),
    "in space": (
        lambda: pictures(
            nn.Conv3d(2, 4, 2), nn.Conv3d(4, 40, (2, 2, 3), stride=(1, 2, 1), padding=(0, 1, 0)), features=80
        ),
        lambda: torch.randn(EXAMPLES, 2, 3, 4, 4),
    ),
    "words": (Language, words),
    "tied": (lambda: Language(tied=True), words),
    "attention": (Attention, words),
    "otherwise": (Otherwise, lambda: torch.randn(EXAMPLES, 3, 6)),
    "mixed": (Centred, lambda: torch.randn(EXAMPLES, 6)),
}


def network(name: str) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(len(name))
    make, data = NETWORKS[name]
    return make(), data(), torch.randint(0, CLASSES, (EXAMPLES,))


def by_hand(module: nn.Module, inputs: Any, targets: Any, norm: float) -> Any:
    """The sum, computed one example after the other in double precision; and the examples' lengths."""
    module, rows = copy.deepcopy(module).double(), []
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    for place in range(len(inputs)):
        module.zero_grad()
        LOSS(module(inputs[place : place + 1]), targets[place : place + 1]).backward()
        own = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters() if p.requires_grad]
        rows.append(torch.cat([gradient.reshape(-1) for gradient in own]))
    lengths = torch.stack(rows).norm(dim=1)
    return (torch.stack(rows) * (norm / lengths).clamp(max=1)[:, None]).sum(dim=0), lengths


def flat(tensors: Any) -> Any:
    return torch.cat([tensor.reshape(-1) for tensor in tensors]).double()


class TestSums:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_they_are_those_of_single_examples(self, name: str) -> None:
        module, inputs, targets = network(name)
        norm = float(by_hand(module, inputs, targets, 1.0)[1].median())  # half of them are clipped
        expected, _ = by_hand(module, inputs, targets, norm)
        found = clipped_gradients(module, LOSS, inputs, targets, norm)
        trained = [p for p in module.parameters() if p.requires_grad]
        assert [tensor.shape for tensor in found] == [p.shape for p in trained]
        assert float((flat(found) - expected).norm() / expected.norm()) < 3e-4
        grad_samples(module, LOSS, inputs, targets)
        sums = clip_and_sum([p.grad_sample for p in trained], norm)
        assert float((flat(found) - flat(sums)).norm() / expected.norm()) < 3e-4

    def test_every_form_is_met(self) -> None:
        """Otherwise the test above would not check some of them."""
        from evertally.torch._ghost import _Path

        met = set()
        for name in NETWORKS:
            module, inputs, targets = network(name)
            trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
            path = _Path.of(module, LOSS, inputs[:1], targets[:1], trained)
            for own, form in path.forms(path.run(inputs, targets)).items():
                several = isinstance(form, Products) and form._inputs.shape[1] > 1
                times = isinstance(form, Products) and form._inputs.shape[2] > 1
                met.add((type(form), "weight" in own, several, times))
        products = {
            (Products, True, several, times) for several, times in [(False, False), (False, True), (True, True)]
        }
        assert met == products | {
            (Formed, True, False, False),
            (Formed, False, False, False),
            (Rows, True, False, False),
        }

    def test_parameters_have_the_order_that_is_asked_for(self) -> None:
        module, inputs, targets = network("dense")
        ordered = clipped_gradients(module, LOSS, inputs, targets, 0.3)
        own = list(module.parameters())
        stranger = nn.Parameter(torch.ones(2))
        asked = clipped_gradients(module, LOSS, inputs, targets, 0.3, parameters=[own[2], stranger, own[0]])
        some = [p.requires_grad_(p is own[0] or p is own[2]) for p in own]
        again = clipped_gradients(module, LOSS, inputs, targets, 0.3)
        assert len(some) == len(ordered) == 4 and len(again) == 2
        assert torch.equal(asked[0], again[1]) and torch.equal(asked[2], again[0]) and not asked[1].any()
        nothing = clipped_gradients(module, LOSS, inputs[:0], targets[:0], 0.3)
        assert [tensor.shape for tensor in nothing] == [own[0].shape, own[2].shape] and not flat(nothing).any()

    def test_what_is_not_used_is_zero(self) -> None:
        module, inputs, targets = network("otherwise")
        found = dict(
            zip(
                [n for n, p in module.named_parameters() if p.requires_grad],
                clipped_gradients(module, LOSS, inputs, targets, 1.0),
            )
        )
        assert not found["unused.weight"].any() and found["two.weight"].any()

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("name", ["dense", "time", "convolutions"])
    def test_examples_that_are_not_finite_count_as_zero(self, name: str, bad: float) -> None:
        module, inputs, targets = network(name)
        expected, _ = by_hand(module, inputs[1:], targets[1:], 0.5)
        inputs[0].view(-1)[0] = bad
        found = flat(clipped_gradients(module, LOSS, inputs, targets, 0.5))
        assert float((found - expected).norm() / expected.norm()) < 3e-4

    def test_bfloat16_and_settings_that_round_harder(self) -> None:
        module, inputs, targets = network("time")
        expected, lengths = by_hand(module, inputs, targets, 0.5)
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        try:
            with torch.autocast("cpu", torch.bfloat16):
                found = flat(clipped_gradients(module, LOSS, inputs, targets, 0.5))
                alone = flat(clipped_gradients(module, LOSS, inputs[:1], targets[:1], 0.5))
            assert torch.get_float32_matmul_precision() == "medium"
        finally:
            torch.set_float32_matmul_precision(before)
        if hasattr(torch.backends.mkldnn.matmul, "fp32_precision"):
            torch.backends.mkldnn.matmul.fp32_precision = "bf16"
            try:  # reading the older setting is an error now
                again = flat(clipped_gradients(module, LOSS, inputs, targets, 0.5))
                assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
            finally:
                torch.set_float32_matmul_precision(before)
            assert float((again - expected).norm() / expected.norm()) < 0.05
        assert float((found - expected).norm() / expected.norm()) < 0.05
        assert lengths[0] > 0.5 and 0.49 < float(alone.norm()) <= 0.5
        module = module.to(torch.bfloat16)
        found = clipped_gradients(module, LOSS, inputs.to(torch.bfloat16), targets, 0.5)
        assert {tensor.dtype for tensor in found} == {torch.float32}
        assert float((flat(found) - expected).norm() / expected.norm()) < 0.05


class TestRefusals:
    def refused(self, module: nn.Module, inputs: Any, match: str) -> None:
        before = [p.detach().clone() for p in module.parameters()]
        names = {id(p) for p in module.parameters()}
        with pytest.raises(ValueError, match=match):
            clipped_gradients(module, LOSS, inputs, torch.zeros(len(inputs), dtype=torch.long), 1.0)
        assert all(torch.equal(p, old) and p.requires_grad for p, old in zip(module.parameters(), before))
        assert {id(p) for p in module.parameters()} == names
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())

    def test_batch_normalization(self) -> None:
        self.refused(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)), torch.randn(3, 6), "mixes examples")

    def test_another_way_each_time(self) -> None:
        often = itertools.count()  # attributes of the module would be restored

        class Once(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(6, 6)

            def forward(self, inputs: Any) -> Any:
                return self.layer(self.layer(inputs)) if next(often) % 2 else self.layer(inputs)

        self.refused(Once(), torch.randn(3, 6), "another path")

    def test_modules_that_keep_what_they_see(self) -> None:
        class Keeps(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(6, 6)
                self.register_buffer("mean", torch.zeros(6))

            def forward(self, inputs: Any) -> Any:
                with torch.no_grad():
                    self.mean.mul_(0.9).add_(inputs.mean(dim=0), alpha=0.1)
                return self.layer(inputs - self.mean)

        module = Keeps()
        with pytest.raises(evertally.InvalidError, match="all examples share"):
            clipped_gradients(module, LOSS, torch.randn(3, 6), torch.zeros(3, dtype=torch.long), 1.0)
        assert not module.mean.any()

    def test_inputs_that_change_in_place(self) -> None:
        class InPlace(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(6, 6)

            def forward(self, inputs: Any) -> Any:
                seen = 2 * inputs
                scores = self.layer(seen)
                return scores + seen.mul_(3)

        self.refused(InPlace(), torch.randn(3, 6), "in place")


def hostile(seed: int) -> tuple[Any, Any]:
    """The inputs and outputs of one example: products that cancel, more or less, of any size."""
    rng = np.random.default_rng(seed)
    terms, wide, high = [(1, 5, 4), (2, 3, 3), (7, 8, 9), (40, 64, 50), (1500, 3, 2)][seed % 5]
    scale = 10.0 ** rng.uniform(-8, 8)
    inputs = rng.standard_normal((terms, wide)) * scale * 10.0 ** rng.uniform(-3, 3, (terms, 1))
    outputs = rng.standard_normal((terms, high)) * 10.0 ** rng.uniform(-6, 6)
    half = terms // 2
    if half and seed % 2:
        inputs[half : 2 * half] = inputs[:half]
        outputs[half : 2 * half] = -outputs[:half] * (1 + 10.0 ** rng.uniform(-9, 0) * rng.standard_normal((half, 1)))
        inputs, outputs = inputs[: 2 * half], outputs[: 2 * half]
    return (torch.from_numpy(part).to(torch.float32)[None, None] for part in (inputs, outputs))


def exact(inputs: Any, outputs: Any) -> Any:
    return (outputs.double().transpose(2, 3) @ inputs.double()).reshape(-1)


class TestBounds:
    """The contribution of one example, after rounding, is never longer than the norm."""

    @pytest.mark.parametrize("seed", range(60))
    def test_alone(self, seed: int) -> None:
        inputs, outputs = hostile(seed)
        length = float(exact(inputs, outputs).norm())
        form = Products(inputs, outputs, torch.Size([outputs.shape[3], inputs.shape[3]]))
        assert float(form.squares()) ** 0.5 >= length * (1 - 1e-12)
        for norm in (length / 3, length, 1e-12 * length, 3 * length):
            (total,) = clipped_sums([form], norm)
            assert float(total.double().norm()) <= norm

    @pytest.mark.parametrize("seed", range(1, 20, 2))
    def test_beside_others(self, seed: int) -> None:
        """Large products that cancel must not destroy the last bits of other examples' contributions."""
        inputs, outputs = hostile(seed)
        terms, wide, high = inputs.shape[2], inputs.shape[3], outputs.shape[3]
        generator = torch.Generator().manual_seed(seed)
        others = (
            torch.randn(20, 1, terms, wide, generator=generator),
            torch.randn(20, 1, terms, high, generator=generator),
        )
        shape = torch.Size([high, wide])
        (without,) = clipped_sums([Products(*others, shape)], 1.0)
        both = (torch.cat([some, own]) for some, own in zip(others, (inputs, outputs)))
        (total,) = clipped_sums([Products(*both, shape)], 1.0)
        assert float((total.double() - without.double()).norm()) <= 1 + 1e-5

    def test_what_cancels_altogether_takes_nothing_with_it(self) -> None:
        """The gradient is zero, but while its terms are added, the sums of others are rounded to their size."""
        generator = torch.Generator().manual_seed(5)
        others = torch.randn(20, 1, 2, 30, generator=generator), torch.randn(20, 1, 2, 30, generator=generator)
        large = 1e4 * torch.randn(1, 1, 1, 30, generator=generator), 1e4 * torch.randn(1, 1, 1, 30, generator=generator)
        own = torch.cat([large[0], large[0]], 2), torch.cat([large[1], -large[1]], 2)
        (without,) = clipped_sums([Products(*others, torch.Size([30, 30]))], 1.0)
        both = (torch.cat([some, more]) for some, more in zip(others, own))
        (total,) = clipped_sums([Products(*both, torch.Size([30, 30]))], 1.0)
        assert not exact(*own).any() and float((total.double() - without.double()).norm()) <= 1

    def test_what_is_too_small_to_round_counts_as_zero(self) -> None:
        inputs, outputs = torch.full((1, 1, 1, 2), 2.0**120), torch.full((1, 1, 1, 2), 1.4 * 2.0**-149)
        for norm in (2.0**-30, 1.0):
            (total,) = clipped_sums([Products(inputs, outputs, torch.Size([2, 2]))], norm)
            assert float(total.double().norm()) <= norm

    def test_no_factor_depends_on_other_examples(self) -> None:
        module, inputs, targets = network("time")
        alone = flat(clipped_gradients(module, LOSS, inputs[:1], targets[:1], 0.5))
        for count in (2, 7, EXAMPLES):
            zero = inputs[:count].clone()
            zero[1:] = float("nan")  # others count as zero
            among = flat(clipped_gradients(module, LOSS, zero, targets[:count], 0.5))
            assert float((among - alone).norm()) < 1e-6 * float(alone.norm())
