"""Modules and batches of many forms: each example runs by itself, and its gradient is the one that PyTorch computes."""

from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from evertally.torch._recurrent import replacement  # noqa: E402

SUM = 1e9  # a norm that no gradient reaches
loss = torch.nn.functional.cross_entropy
WORDS = torch.tensor([[1, 4, 2, 2], [3, 3, 0, 9], [5, 1, 7, 8]])
CLASSES = torch.tensor([0, 1, 1])


def sums(module: Any, clipping: str, inputs: Any, targets: Any, of: Any = loss) -> list[Any]:
    if clipping == "ghost":
        return et.torch.clipped_gradients(module, of, inputs, targets, SUM)
    et.torch.grad_samples(module, of, inputs, targets)
    return et.torch.clip_and_sum([parameter.grad_sample for parameter in module.parameters()], SUM)


def expected(module: Any, total: Any) -> list[Any]:
    module.zero_grad()
    total.backward()
    return [parameter.grad.to_dense() for parameter in module.parameters()]


def assert_close(found: list[Any], wanted: list[Any], within: float = 2e-6) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, atol=within, rtol=2e-5)


class Sentences(torch.nn.Module):
    """A recurrent layer over words, which may be a layer of several levels or a loop over a cell."""

    def __init__(self, recurrent: Any, sparse: bool = False) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 4, sparse=sparse)
        self.recurrent, self.end = recurrent, torch.nn.Linear(5, 2)

    def forward(self, words: Any) -> Any:
        values = self.words(words)
        if isinstance(self.recurrent, torch.nn.RNNBase):
            return self.end(self.recurrent(values)[0][:, -1, :5])
        state = None
        for time in range(values.shape[1]):
            state = self.recurrent(values[:, time], state)
        return self.end(state[0] if isinstance(state, tuple) else state)


RECURRENT = {
    "rnn": lambda: torch.nn.RNN(4, 5, batch_first=True, nonlinearity="relu"),
    "lstm": lambda: torch.nn.LSTM(4, 5, num_layers=2, batch_first=True),
    "gru": lambda: torch.nn.GRU(4, 5, batch_first=True, bidirectional=True),
    "rnn cell": lambda: torch.nn.RNNCell(4, 5),
    "lstm cell": lambda: torch.nn.LSTMCell(4, 5),
    "gru cell": lambda: torch.nn.GRUCell(4, 5, bias=False),
}


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, clipping):
    torch.manual_seed(1)
    module = Sentences(RECURRENT[name]())
    wanted = expected(module, loss(module(WORDS), CLASSES, reduction="sum"))
    assert_close(sums(module, clipping, WORDS, CLASSES), wanted)
    assert "forward" not in vars(module.recurrent)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_with_states_equal_the_fused_ones(kind, batch_first):
    torch.manual_seed(2)
    options = {"num_layers": 2, "bidirectional": True, "batch_first": batch_first}
    layer = getattr(torch.nn, kind)(4, 5, **options, **({"proj_size": 3} if kind == "LSTM" else {})).double()
    values = torch.randn(3, 6, 4, dtype=torch.float64)
    single = replacement(layer)
    assert single is not None
    _, state = layer(values)
    for inputs in ((values,), (values, state), (values[0],)):
        torch.testing.assert_close(single(*inputs), layer(*inputs))
    with pytest.raises(et.InvalidError, match="fixed length"):
        single(torch.nn.utils.rnn.pack_sequence([values[0]]))


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_embeddings_with_sparse_gradients(clipping):
    torch.manual_seed(3)
    module = Sentences(torch.nn.GRU(4, 5, batch_first=True), sparse=True)
    wanted = expected(module, loss(module(WORDS), CLASSES, reduction="sum"))
    assert_close(sums(module, clipping, WORDS, CLASSES), wanted)
    assert module.words.sparse
    found = et.torch.clipped_gradients(module, loss, WORDS, CLASSES, SUM, sparse=[module.words.weight])
    assert found[0].is_sparse and found[0]._nnz() < 10
    assert_close([total.to_dense() for total in found], wanted)


def test_embeddings_that_shorten_their_rows_are_refused():
    with pytest.raises(ValueError, match="max_norm"):
        sums(torch.nn.Embedding(10, 2, max_norm=1.0), "samples", WORDS[:, 0], CLASSES)


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_batch_normalization_with_fixed_statistics(clipping):
    torch.manual_seed(4)
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    module[0].running_mean.normal_()
    values = torch.randn(3, 4)
    with pytest.raises(ValueError, match="call eval"):
        sums(module, clipping, values, CLASSES)
    module[0].eval()
    before = module[0].running_mean.clone()
    assert_close(
        sums(module, clipping, values, CLASSES), expected(module, loss(module(values), CLASSES, reduction="sum"))
    )
    assert torch.equal(module[0].running_mean, before)
    without = torch.nn.BatchNorm1d(4, track_running_stats=False).eval()  # uses those of the batch
    with pytest.raises(ValueError, match="mixes examples"):
        sums(without, clipping, values, CLASSES)


class Curved(torch.nn.Module):
    """Uses derivatives of a part by its input."""

    def __init__(self, derivative: Any) -> None:
        super().__init__()
        self.first, self.inner, self.last = torch.nn.Linear(4, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)
        self.derivative = derivative

    def forward(self, values: Any) -> Any:
        def of_one(row: Any) -> Any:
            return torch.tanh(self.inner(row) * row).sum()

        hidden = torch.tanh(self.first(values))
        found = self.derivative(of_one)
        found = found(hidden[0])[None] if self.derivative is dual else torch.func.vmap(found)(hidden)
        return self.last(hidden + found.reshape(-1, 3, 3)[:, 0])


def dual(of: Any) -> Any:
    def derivative(row: Any) -> Any:
        with torch.autograd.forward_ad.dual_level():
            made = of(torch.autograd.forward_ad.make_dual(row, torch.ones_like(row)))
            return torch.autograd.forward_ad.unpack_dual(made).tangent.expand(3, 3)

    return derivative


DERIVATIVES = {
    "gradient": lambda of: lambda row: torch.func.grad(of)(row).expand(3, 3),
    "backward": lambda of: lambda row: torch.func.jacrev(of)(row).expand(3, 3),
    "forward": lambda of: lambda row: torch.func.jacfwd(of)(row).expand(3, 3),
    "second": torch.func.hessian,
    "dual numbers": dual,
    "product": lambda of: lambda row: torch.func.vjp(of, row)[1](torch.ones(()))[0].expand(3, 3),
}


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_modules_with_derivatives(derivative, clipping):
    torch.manual_seed(5)
    module, values = Curved(DERIVATIVES[derivative]), torch.randn(3, 4)
    losses = (loss(module(value[None]), label[None]) for value, label in zip(values, CLASSES))
    wanted = expected(module, sum(losses))
    for _ in range(2):
        assert_close(sums(module, clipping, values, CLASSES), wanted)


class Stateful(torch.nn.Module):
    """Keeps its input for its next call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.seen, self.calls = torch.nn.Linear(4, 2), torch.zeros(1, 4), 0

    def forward(self, values: Any) -> Any:
        self.seen, self.calls, self.last = self.seen + values, self.calls + 1, [values]
        return self.linear(self.seen)


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_states_of_examples_do_not_reach_the_next_step(clipping):
    torch.manual_seed(5)
    module, values = Stateful(), torch.randn(3, 4)
    first = sums(module, clipping, values, CLASSES)
    assert torch.equal(module.seen, torch.zeros(1, 4)) and not hasattr(module, "last") and module.calls == 0
    assert_close(sums(module, clipping, values, CLASSES), first)


class Branching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, values: Any) -> Any:
        return self.linear(values * 2 if values.sum() > 0 else values)


class Keeping(Branching):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, values: Any) -> Any:
        return self.linear(values - self.mean.add_(values.mean(dim=0)))


class Wide(Branching):
    def forward(self, values: Any) -> Any:
        return self.linear(torch.cat([values, values], dim=1))


class Checkpointing(Branching):
    def forward(self, values: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.linear, values, use_reentrant=False)


class Chosen(Branching):
    def forward(self, values: Any) -> Any:
        return self.linear(values[:, values[0] > 9])


class Listed(Branching):
    def forward(self, values: Any) -> Any:
        return self.linear(torch.tensor(values.tolist()))


class Assigned(Branching):
    def forward(self, values: Any) -> Any:
        self.linear.weight.data = self.linear.weight.data.clamp(-1, 1)
        return self.linear(values)


class Inferring(Branching):
    def forward(self, values: Any) -> Any:
        with torch.inference_mode():
            values = self.linear(values)
        return values


class Complex(Branching):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2, dtype=torch.complex64)

    def forward(self, values: Any) -> Any:
        return self.linear(values.to(torch.complex64)).abs()


class Differentiating(Branching):
    def forward(self, values: Any) -> Any:
        values = values.detach().requires_grad_()
        return self.linear(torch.autograd.grad(self.linear(values).sum(), values, create_graph=True)[0])


EXPLAINED = [
    (Branching, "torch.where"),
    (Keeping, "new_zeros"),
    (Wide, "in `linear`: .*multiplied"),
    (Checkpointing, "gradient_checkpointing_disable"),
    (Differentiating, "torch.func.grad"),
    (Chosen, "boolean mask"),
    (Listed, "NumPy or to a list"),
    (Assigned, "after the step"),
    (Inferring, "torch.no_grad"),
    (Complex, "torch.view_as_complex"),
]


@pytest.mark.parametrize("module, remedy", EXPLAINED)
def test_errors_of_modules_are_explained_and_reveal_no_batch_size(module, remedy):
    with pytest.raises((et.InvalidError, ValueError), match=remedy) as caught:
        et.torch.grad_samples(module(), loss, torch.ones(37, 4), torch.zeros(37, dtype=torch.long))
    assert "37" not in str(caught.value)


def test_sparse_gradients_of_functions_are_explained():
    class Looked(Sentences):
        def forward(self, words: Any) -> Any:
            values = torch.nn.functional.embedding(words, self.words.weight, sparse=True)
            return self.end(self.recurrent(values)[0][:, -1])

    with pytest.raises(et.InvalidError, match="omit sparse=True"):
        et.torch.grad_samples(Looked(torch.nn.GRU(4, 5, batch_first=True)), loss, WORDS, CLASSES)


def test_a_loss_of_several_numbers_is_explained():
    with pytest.raises(et.InvalidError, match="one number and no dimensions"):
        et.torch.grad_samples(
            torch.nn.Linear(4, 2), torch.nn.CrossEntropyLoss(reduction="none"), torch.ones(3, 4), CLASSES
        )


class FromOne(torch.nn.Module):
    """Numbers words from 1: an example of zeros has none."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.end = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 2)

    def forward(self, words: Any) -> Any:
        return self.end(self.words(words - 1).sum(dim=1))


def test_where_ghost_clipping_cannot_follow_auto_stores_samples():
    torch.manual_seed(6)
    module, words = FromOne(), WORDS + 1
    with pytest.raises(et.InvalidError, match='example of zeros .* in `words` .IndexError.*clipping="samples"'):
        sums(module, "ghost", words, CLASSES)
    wanted = expected(module, loss(module(words), CLASSES, reduction="sum"))
    plan, key = et.training.plan_vector(3, norm=SUM, rho=0.5), et.SecretKey.generate()
    optimizer, dataset = torch.optim.SGD(module.parameters()), torch.utils.data.TensorDataset(words, CLASSES)
    run = et.torch.make_private(module, loss, optimizer, dataset, plan, key, "run", batch_size=1, microbatch=2)
    assert run.clipping == "ghost" and "first step decides" in run.clipping_reason
    assert_close([total.float() for total in run._sums_of_all(words, CLASSES, [0, 1, 2])], wanted, within=1e-2)
    assert run.clipping == "samples" and "IndexError" in run.clipping_reason


def test_errors_of_one_example_reveal_nothing():
    words = torch.nn.Sequential(torch.nn.Embedding(10, 2), torch.nn.Flatten())
    with pytest.raises(et.InvalidError, match="IndexError") as caught:
        et.torch.grad_samples(words, loss, torch.tensor([[1]] * 36 + [[77]]), torch.zeros(37, dtype=torch.long))
    assert "37" not in str(caught.value) and "77" not in str(caught.value)


class Keywords(torch.nn.Module):
    """A model as in Transformers: keyword arguments, a mask, and its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.end = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 2)

    def forward(self, input_ids: Any, attention_mask: Any, labels: Any = None) -> Any:
        mask = attention_mask.unsqueeze(-1).float()
        logits = self.end((self.words(input_ids) * mask).sum(dim=1) / mask.sum(dim=1))
        return {"logits": logits, "loss": None if labels is None else loss(logits, labels)}


class Rows(torch.utils.data.Dataset):
    """Examples as a tokenizer returns them: lists of numbers by name."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, number: int) -> Any:
        length = 2 + number % 3
        row = [number % 10] * length + [0] * (5 - length)
        return {"input_ids": row, "attention_mask": [1] * length + [0] * (5 - length), "labels": number % 2}


def trained(how: Any, dataset: Any, clipping: str, microbatch: int | None = None, collate: Any = None) -> Any:
    torch.manual_seed(6)
    module = Keywords()
    # Hardly any noise.
    plan = et.training.plan_vector(6, rho=1e6, participations=6, separation=1, allow_weak_budget=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    key = et.SecretKey.generate()
    options = {} if collate is None else {"collate_fn": collate}
    run = et.torch.make_private(
        module, how, optimizer, dataset, plan, key, "run", batch_size=10, clipping=clipping, microbatch=microbatch,
        **options,
    )
    for batch in run.loader:
        run.step(*batch)
    return list(module.parameters())


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_examples_with_names(clipping):
    weights = trained(None, Rows(), clipping)

    def of_output(output: Any, batch: Any) -> Any:
        return loss(output["logits"], batch["labels"])

    assert_close(trained(of_output, Rows(), clipping), weights, within=3e-3)
    assert_close(trained(None, Rows(), clipping, microbatch=4), weights, within=3e-3)

    def to_the_longest(rows: Any) -> Any:
        longest = max(int(row["attention_mask"].sum()) for row in rows)
        return {
            name: torch.stack([row[name][:longest] if row[name].ndim else row[name] for row in rows])
            if name != "labels"
            else torch.tensor([row[name] for row in rows])
            for name in rows[0]
        }

    with pytest.raises(et.InvalidError, match="fixed beforehand"):
        trained(None, Rows(), clipping, collate=to_the_longest)
    rows = [Rows()[place] for place in range(len(Rows()))]
    with pytest.raises(et.InvalidError, match="no loss"):
        trained(None, [{name: row[name] for name in ("input_ids", "attention_mask")} for row in rows], clipping)
    with pytest.raises(et.InvalidError, match="str"):
        trained(None, [row | {"text": "words"} for row in rows], clipping)


class Pairs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = torch.nn.Linear(4, 2), torch.nn.Linear(3, 2)

    def forward(self, left: Any, right: Any) -> Any:
        return self.left(left) * self.right(right)


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
def test_several_inputs(clipping):
    torch.manual_seed(7)
    module, left, right = Pairs(), torch.randn(3, 4), torch.randn(3, 3)
    wanted = expected(module, loss(module(left, right), CLASSES, reduction="sum"))
    assert_close(sums(module, clipping, (left, right), CLASSES), wanted)
    with pytest.raises(et.InvalidError, match="different numbers"):
        sums(module, clipping, (left, right[:2]), CLASSES)


def test_data_in_their_own_order_are_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter([(torch.ones(4), 0)])

    module = torch.nn.Linear(4, 2)
    plan = et.training.plan_vector(2, rho=1.0)
    for dataset in (Stream(), (pair for pair in [(torch.ones(4), 0)])):
        with pytest.raises(TypeError, match="own order"):
            et.torch.make_private(
                module, loss, torch.optim.SGD(module.parameters()), dataset, plan, et.SecretKey.generate(), "run"
            )
