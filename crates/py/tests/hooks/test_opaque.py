"""Functions that run where operations are not checked: they are refused, or checked."""

import evertally as et
import pytest

torch = pytest.importorskip("torch")
import evertally.torch  # noqa: E402
from torch import nn  # noqa: E402

from . import small  # noqa: E402

LOSS, NORM = nn.functional.cross_entropy, 0.3
#: Tensors of earlier calls.
KEPT = []
COUNTS = torch.zeros(())


class Between(nn.Module):
    """A layer, a function, and another layer."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two = nn.Linear(small.FEATURES, 4), nn.Linear(4, small.CLASSES)
        self.function = function

    def forward(self, inputs):
        return self.two(self.function(self.one(inputs)))


def sums(function, clipping, rows):
    module, (inputs, targets) = Between(function), small.data()[rows]
    if clipping == "ghost":
        found = et.torch.clipped_gradients(module, LOSS, inputs, targets, NORM)
    else:
        et.torch.grad_samples(module, LOSS, inputs, targets)
        found = et.torch.clip_and_sum([p.grad_sample for p in module.parameters()], NORM)
    return torch.cat([total.reshape(-1) for total in found])


def counted(values):
    COUNTS.add_(1)
    return values + COUNTS


class Straight(torch.autograd.Function):
    """A rounding with the gradient of the identity."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values):
        return values.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Mixing(Straight):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, dims, values):
        return values - values.mean(dim=dims[0], keepdim=True), dims[0]


@torch.library.custom_op("evertally_tests::sign", mutates_args=())
def sign(values: torch.Tensor) -> torch.Tensor:
    return values.sign()


def with_script(values):
    KEPT.append(values)
    return plus(values, KEPT[-2:][0])


def with_hook(values):
    def hook(gradient):
        KEPT.append(gradient)
        return gradient + KEPT[-2:][0]

    values = values * 1
    values.register_hook(hook)
    return values


def in_another_batch(values):
    def of_row(row):
        KEPT.append(row)
        return row + KEPT[-2:][0]

    return torch.func.vmap(of_row)(values)


def with_distance(values):
    def distance(one, other):
        KEPT.append(one)
        return (KEPT[-2:][0] - other).norm(dim=-1)

    return values * nn.functional.triplet_margin_with_distance_loss(
        values, values + 1, values + 2, distance_function=distance
    )


def chosen(values):
    return torch.cond(torch.ones((), dtype=torch.bool), lambda x: x * 1, lambda x: x * 2, (values,))


@torch.jit.script
def plus(one, other):
    return one + other.tanh()


def with_node(values):
    values = values * 1
    values.grad_fn.register_hook(lambda gradients, _: KEPT.append(gradients))
    return values


#: Held where no module has it.
SCRIPTED = [torch.jit.script(nn.Tanh())]
class WithoutContext(torch.autograd.Function):
    """The form of most functions."""

    @staticmethod
    def forward(ctx, values):
        return values.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


REFUSED = {
    "a traced function with a tensor": (torch.jit.trace(counted, torch.ones(1, 4), check_trace=False), "`counted`"),
    "a global scripted module": (lambda values: SCRIPTED[0](values), "of a TorchScript module"),
    "its method": (lambda values: SCRIPTED[0].forward(values), "of a TorchScript module"),
    "a function with its own gradient": (Straight.apply, "torch.autograd.Function Straight"),
    "without setup_context": (WithoutContext.apply, "checkpoints do so., which can mix examples"),
    "a rule for vmap": (Mixing.apply, "torch.autograd.Function Mixing"),
    "a node of the graph": (with_node, "grad_fn"),
    "an operator of another library": (lambda values: values + sign(torch.ones(4)), "evertally_tests"),
}


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_seen_into_is_refused_with_a_remedy(kind, clipping):
    function, match = REFUSED[kind]
    with pytest.raises(et.InvalidError, match=match):
        sums(function, clipping, [1, 2, 3])


def test_functions_of_functions_are_refused():
    # PyTorch refuses by itself where it has loaded its compiler.
    with pytest.raises(et.InvalidError, match="torch.where instead of torch.cond|higher order operator"):
        sums(chosen, "samples", [1, 2, 3])


@pytest.mark.parametrize(
    "function, clipping",
    [
        (with_script, "ghost"),
        (with_script, "samples"),
        (with_hook, "samples"),
        (in_another_batch, "ghost"),
        (in_another_batch, "samples"),
        (with_distance, "samples"),
    ],
)
def test_tensors_of_earlier_calls_are_refused_there(function, clipping):
    KEPT.clear()
    with pytest.raises(et.InvalidError, match="an earlier call has kept"):
        for rows in ([1, 2], [3, 4]):
            sums(function, clipping, rows)
    KEPT.clear()


def halved(values):
    values = values * 1
    values.register_hook(lambda gradient: gradient / 2)
    return values


def halved_without_hook(values):
    return values / 2 + (values / 2).detach()


@pytest.mark.parametrize("clipping", ["ghost", "samples"])
def test_functions_without_a_state_work(clipping):
    rows = [1, 2, 3]
    expected = sums(lambda values: values + values.tanh(), clipping, rows)
    torch.testing.assert_close(sums(lambda values: plus(values, values), clipping, rows), expected)
    if clipping == "samples":  # ghost clipping follows layers whose outputs need no gradient
        torch.testing.assert_close(sums(halved, clipping, rows), sums(halved_without_hook, clipping, rows))
    compiled = torch.compile(lambda values: values + values.tanh(), backend="eager")
    torch.testing.assert_close(sums(compiled, clipping, rows), expected)


def test_outside_of_private_steps_nothing_changes():
    assert torch.equal(SCRIPTED[0](torch.ones(2)), torch.ones(2).tanh())
    assert torch.equal(plus(torch.ones(2), torch.zeros(2)), torch.ones(2))
    assert Straight.apply(torch.ones(1, requires_grad=True)).requires_grad


def test_the_remedies_compute_the_same():
    values = torch.tensor([0.4, 1.6], requires_grad=True)
    straight, gradient = values + (values.round() - values).detach(), torch.tensor([2.0, 3.0])
    assert torch.equal(straight, values.round())
    assert torch.equal(torch.autograd.grad(straight, values, gradient)[0], gradient)
    reversed_gradient = -values + 2 * values.detach()
    assert torch.equal(reversed_gradient, values)
    assert torch.equal(torch.autograd.grad(reversed_gradient, values, gradient)[0], -gradient)
