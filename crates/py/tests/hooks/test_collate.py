"""A `collate_fn` that lets one example change others is refused: the gradient of a single example would have no
bound."""

import random
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch._collate import WHOLE, Apart  # noqa: E402

LENGTHS = [3, 5, 2, 8, 3, 3, 4, 7]
Pair = namedtuple("Pair", "inputs targets")


class Words(torch.utils.data.Dataset):
    """Sentences of several lengths."""

    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, number: int) -> Any:
        return torch.arange(1, LENGTHS[number] + 1), number % 2


def targets(pairs: list[Any]) -> Any:
    return torch.tensor([target for _, target in pairs])


def padded(pairs: list[Any], length: int) -> Any:
    return torch.stack([torch.nn.functional.pad(words, (0, length - len(words))) for words, _ in pairs])


def to_the_longest(pairs: list[Any]) -> Any:
    words = torch.nn.utils.rnn.pad_sequence([words for words, _ in pairs], batch_first=True)
    return words, targets(pairs)


def to_one_length(pairs: list[Any]) -> Any:
    return padded(pairs, 10), targets(pairs)


def as_dicts(pairs: list[Any]) -> Any:
    words = padded(pairs, 10)
    return {"words": words, "mask": words > 0, "names": [str(len(words)) for words, _ in pairs]}, targets(pairs)


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(11, 4), torch.nn.Flatten(), torch.nn.Linear(40, 2))


def run(collate: Callable[..., Any], network: Any = None, dataset: Any = None, **options: Any) -> Any:
    plan = et.training.plan_vector(8, rho=1.0, participations=4, separation=2)
    network = network or model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss = torch.nn.functional.cross_entropy
    name = f"collated {random.random()}"
    data = dataset or Words()
    make = evertally.torch.make_private
    return make(network, loss, optimizer, data, plan, KEY, name, batch_size=4, collate_fn=collate, **options)


KEY = et.SecretKey.generate()


@pytest.mark.parametrize("workers", [0, 1])
def test_padding_to_the_longest_is_refused_and_says_what_to_do(workers: int) -> None:
    with pytest.raises(et.InvalidError, match="Pad every example to one length that is fixed") as refused:
        next(iter(run(to_the_longest, num_workers=workers).loader))
    assert not any(str(length) in str(refused.value).partition("Original Traceback")[0] for length in LENGTHS)


def test_examples_of_several_lengths_are_explained_without_their_lengths() -> None:
    pairs = [Words()[number] for number in range(4)]
    with pytest.raises(et.InvalidError, match="one length that is fixed beforehand") as refused:
        Apart(torch.utils.data.default_collate)(pairs)
    assert not any(f"[{length}]" in str(refused.value) for length in LENGTHS)
    with pytest.raises(TypeError, match="NoneType"):
        Apart(torch.utils.data.default_collate)([(None, 0), (None, 1)])


def test_padding_to_one_length_trains() -> None:
    training = run(to_one_length)
    for batch in training.loader:
        training.step(*batch)
    assert training.optimizer.noise.step == 8


def test_one_example_moves_a_padded_sum_by_more_than_a_norm() -> None:
    """Why it is refused: the longest sentence changes the padding of all others."""
    network = torch.nn.Sequential(torch.nn.Embedding(11, 4), Mean(), torch.nn.Linear(4, 2))
    loss, norm = torch.nn.functional.cross_entropy, 0.1
    data = [Words()[number] for number in (0, 0, 0, 0, 3)]

    def sums(pairs: list[Any]) -> Any:
        evertally.torch.grad_samples(network, loss, *to_the_longest(pairs))
        return evertally.torch.clip_and_sum([p.grad_sample for p in network.parameters()], norm)

    moved = [whole - others for whole, others in zip(sums(data), sums(data[:-1]))]
    assert float(torch.cat([part.reshape(-1) for part in moved]).norm()) > 1.2 * norm


class Mean(torch.nn.Module):
    def forward(self, words: Any) -> Any:
        return words.mean(dim=1)


@dataclass
class Both:
    words: Any
    shared: Any


def mixes_values(pairs: list[Any]) -> Any:
    words = padded(pairs, 10).float()
    return words - words.mean(dim=0), targets(pairs)


def mixes_types(pairs: list[Any]) -> Any:
    longest = max(len(words) for words, _ in pairs)
    return padded(pairs, 10).to(torch.int64 if longest > 4 else torch.int32), targets(pairs)


def mixes_in_a_dict(pairs: list[Any]) -> Any:
    return {"words": padded(pairs, 10), "rest": {"longest": max(len(words) for words, _ in pairs)}}, targets(pairs)


def mixes_in_a_tuple(pairs: list[Any]) -> Any:
    return Pair((padded(pairs, 10), [to_the_longest(pairs)[0]]), targets(pairs))


def mixes_in_a_dataclass(pairs: list[Any]) -> Any:
    return Both(padded(pairs, 10), torch.tensor(max(len(words) for words, _ in pairs))), targets(pairs)


def mixes_in_numpy(pairs: list[Any]) -> Any:
    return np.sort(padded(pairs, 10).numpy(), axis=0), targets(pairs)


def mixes_up(pairs: list[Any]) -> Any:
    words = padded(pairs, 10).float()
    return 0.7 * words + 0.3 * words.flip(0), targets(pairs)


def sorts(pairs: list[Any]) -> Any:
    return to_one_length(sorted(pairs, key=lambda pair: len(pair[0])))


def leaves_out(pairs: list[Any]) -> Any:
    return to_one_length(pairs[1:] if len(pairs) > 1 else pairs)


MIXING = [
    to_the_longest,
    mixes_values,
    mixes_types,
    mixes_in_a_dict,
    mixes_in_a_tuple,
    mixes_in_a_dataclass,
    mixes_in_numpy,
    mixes_up,
    sorts,
    leaves_out,
]


def pairs(*numbers: int) -> list[Any]:
    return [Words()[number] for number in numbers]


@pytest.mark.parametrize("collate", MIXING)
def test_what_mixes_is_refused_whatever_it_returns(collate: Callable[..., Any]) -> None:
    with pytest.raises(et.InvalidError, match="keep|than alone"):
        Apart(collate)(pairs(0, 1, 2, 3))


@pytest.mark.parametrize(
    "collate",
    [
        to_one_length,
        as_dicts,
        lambda pairs: Pair((padded(pairs, 10), [padded(pairs, 12)]), targets(pairs)),
        lambda pairs: (Both(padded(pairs, 10), torch.arange(4)), targets(pairs)),
        lambda pairs: ({"words": padded(pairs, 10), "positions": torch.arange(10)}, targets(pairs)),
        lambda pairs: (padded(pairs, 10).float() / 0, targets(pairs)),
        lambda pairs: ([words for words, _ in pairs], [target for _, target in pairs]),
    ],
)
def test_what_keeps_examples_apart_is_taken(collate: Callable[..., Any]) -> None:
    apart = Apart(collate)
    for numbers in [(0, 1, 2, 3), (4,), (5, 6), (0, 3, 1, 2), (7, 3, 3), (1, 1, 1, 1)]:
        apart(pairs(*numbers))


def test_what_mixes_only_some_batches_is_found_in_them() -> None:
    def sometimes(pairs: list[Any]) -> Any:
        return to_the_longest(pairs) if len(pairs) == 3 else to_one_length(pairs)

    apart = Apart(sometimes)
    for _ in range(WHOLE + 2):
        apart(pairs(0, 1, 2, 3))
    with pytest.raises(et.InvalidError, match="than alone"):
        for _ in range(3):  # one example of each later batch is checked
            apart(pairs(0, 3, 0))


def test_random_collation_is_refused_with_another_remedy() -> None:
    def drops(pairs: list[Any]) -> Any:
        return padded(pairs, 10) * (torch.rand(len(pairs), 10) < 0.5), targets(pairs)

    with pytest.raises(et.InvalidError, match="draws at random.*__getitem__"):
        Apart(drops)(pairs(0, 1, 2, 3))


def test_the_look_leaves_random_numbers_and_examples_alone() -> None:
    seen = []

    def draws_and_changes(pairs: list[Any]) -> Any:
        seen.append((float(torch.rand(())), float(np.random.rand()), random.random()))
        result = to_one_length(pairs)
        for words, _ in pairs:
            words.zero_()
        return result

    def numbers(collate: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(1), np.random.seed(1), random.seed(1)
        results = [collate(pairs(0, 1, 2, 3)) for _ in range(2)]
        return [results, float(torch.rand(())), float(np.random.rand()), random.random()]

    looked, plain = numbers(Apart(draws_and_changes)), numbers(draws_and_changes)
    assert looked[1:] == plain[1:]
    assert all(torch.equal(one[0], other[0]) for one, other in zip(looked[0], plain[0]))


def test_it_costs_one_example_a_batch() -> None:
    calls = []

    def counts(pairs: list[Any]) -> Any:
        calls.append(len(pairs))
        return to_one_length(pairs)

    apart = Apart(counts)
    for _ in range(WHOLE + 5):
        apart(pairs(0, 1, 2, 3))
    assert calls == [4, 1, 1, 1, 1] * WHOLE + [4, 1] * 5
