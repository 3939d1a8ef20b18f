"""What `make_private` decides and offers around the steps: clipping, several optimizers, epochs, the secret loss."""

import copy
import math
import threading

import evertally as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from evertally.torch import DPFTRL, audit_run, load_checkpoint, make_private, save_checkpoint  # noqa: E402
from torch import nn  # noqa: E402

from . import small  # noqa: E402

LOSS = nn.functional.cross_entropy
STEPS, BATCH = 12, 100  # three epochs of four batches


def plan(**options):
    options = {"rho": 0.5, "mechanism": "smooth", "participations": 3, "separation": 4} | options
    return et.training.plan_vector(STEPS, norm=0.5, **options)


def sampled(fraction):
    budget = {"epsilon": 8.0, "delta": 1e-5, "mechanism": "input"}
    return et.training.plan_vector(STEPS, norm=0.5, sampling="poisson", sampled_fraction=fraction, **budget)


def two_optimizers(module):
    matrices = [p for p in module.parameters() if p.ndim == 2]
    others = [p for p in module.parameters() if p.ndim != 2]
    first = getattr(torch.optim, "Muon", torch.optim.SGD)(matrices, lr=0.05)
    return [first, torch.optim.AdamW([{"params": [p], "lr": 0.01} for p in others])]


def made(module=None, optimizer=None, name="run", dataset=None, plan_of=None, **options):
    module = small.network() if module is None else module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1) if optimizer is None else optimizer
    options = {"batch_size": BATCH} | options
    dataset = small.data() if dataset is None else dataset
    return make_private(module, LOSS, optimizer, dataset, plan_of or plan(), small.key(), name, **options)


def weights(run):
    return [p.detach().clone() for p in run.module.parameters()]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(small.FEATURES, 5), nn.Linear(5, small.CLASSES)

    def forward(self, inputs):
        seen = inputs * 1.0
        out = self.one(seen)
        seen.mul_(2)
        return self.two(out)


class OnlyScales(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(small.FEATURES, small.CLASSES))

    def forward(self, inputs):
        return inputs @ self.weight


class TestAuto:
    @pytest.mark.parametrize(
        "module, clipping, reason",
        [
            (small.network, "ghost", "100% of the trained parameters"),
            (InPlace, "samples", "in place"),
            (OnlyScales, "samples", "no trained parameter"),
        ],
    )
    def test_the_choice_and_its_reason(self, module, clipping, reason):
        run = made(module())
        assert run.clipping == clipping and reason in run.clipping_reason
        if module is not InPlace:  # whose weights cannot be trained at all
            run.step(*next(iter(run.loader)))

    def test_it_is_the_run_with_this_clipping(self):
        auto, ghost = made(), made(clipping="ghost")
        for run in (auto, ghost):
            for batch in run.loader:
                run.step(*batch)
        assert same(weights(auto), weights(ghost))
        assert ghost.clipping_reason == "it was requested"

    def test_second_moments_need_samples(self):
        module = small.network()
        optimizer = et.torch.DPAdam(module.parameters(), lr=0.01)
        run = made(module, optimizer, second_moments=et.torch.SecondMoments())
        assert run.clipping == "samples" and "second moments" in run.clipping_reason

    def test_values_and_random_numbers_are_not_used(self):
        """A data set whose examples change in the loop, and one that draws."""

        class Drawn(torch.utils.data.Dataset):
            def __len__(self):
                return small.EXAMPLES

            def __getitem__(self, number):
                return torch.rand(small.FEATURES) * math.nan, torch.tensor(number % small.CLASSES)

        torch.manual_seed(9)
        expected = torch.rand(1)
        module = small.network()
        torch.manual_seed(9)
        assert made(module, dataset=Drawn()).clipping == "ghost"
        assert torch.equal(torch.rand(1), expected)

        class Words(Drawn):
            def __getitem__(self, number):
                return torch.ones(2), torch.tensor(0)

        run = made(dataset=Words())
        assert run.clipping == "ghost" and "not traced" in run.clipping_reason
        with pytest.raises(ValueError, match="auto"):
            made(clipping="both")


class TestSeveralOptimizers:
    def test_steps_are_those_of_each_on_its_part_of_the_noisy_gradient(self):
        module = small.network()
        order = [p for p in module.parameters() if p.ndim == 2] + [p for p in module.parameters() if p.ndim != 2]
        names = {id(p): name for name, p in module.named_parameters()}
        # One optimizer with the same order of parameters gets the same gradients.
        reference = copy.deepcopy(module)
        of_reference = dict(reference.named_parameters())
        single = made(reference, torch.optim.SGD([of_reference[names[id(p)]] for p in order], lr=0.0))
        run = made(module, two_optimizers(module))
        by_hand = copy.deepcopy(module)
        own = two_optimizers(by_hand)
        for batch, again in zip(run.loader, single.loader):
            reference.load_state_dict(module.state_dict())
            single.step(*again)
            for p, other in zip(by_hand.parameters(), reference.parameters()):
                p.grad = other.grad.clone()
            for optimizer in own:
                optimizer.step()
            run.step(*batch)
            assert same(weights(run), list(by_hand.parameters()))

    def test_one_norm_for_all_parameters(self):
        """A doubled loss does not double the sum: examples are clipped over both optimizers together."""
        module = small.network()
        private = DPFTRL(two_optimizers(module), plan(), small.key(), "run", expected_batch_size=1.0)
        for p in module.parameters():
            p.grad_sample = torch.full((1, *p.shape), 1e3)
        seen = []
        private.noise.add_next = lambda vector, count: seen.append(vector.clone()) or private.noise.stand_at(1)
        private.step()
        assert math.isclose(float(seen[0].norm()), 0.5, rel_tol=1e-5)

    def test_direct_steps_copies_and_shared_parameters_are_refused(self):
        module = small.network()
        optimizers = two_optimizers(module)
        run = made(module, optimizers)
        before = weights(run)
        for optimizer in optimizers:
            with pytest.raises(RuntimeError, match="exact gradients"):
                optimizer.step()
            with pytest.raises(TypeError, match="not copied"):
                copy.deepcopy(optimizer)
        with pytest.raises(ValueError, match="wrapped in a DPFTRL already"):
            made(module, optimizers[::-1])
        assert same(before, weights(run))
        module = small.network()
        twice = [torch.optim.SGD(module.parameters(), lr=0.1), torch.optim.SGD(module[0].parameters(), lr=0.1)]
        with pytest.raises(ValueError, match="two optimizers"):
            made(module, twice)
        with pytest.raises(ValueError, match="neither in the optimizer"):
            made(module, [torch.optim.SGD(module[0].parameters(), lr=0.1)])
        with pytest.raises(ValueError, match="LBFGS"):
            made(module, [torch.optim.LBFGS(module.parameters())])
        with pytest.raises(ValueError, match="the only optimizer"):
            made(module, [et.torch.DPAdam(module[0].parameters()), torch.optim.SGD(module[2].parameters())])
        with pytest.raises(ValueError, match="empty"):
            made(module, [])

    def test_they_resume_bit_for_bit(self, tmp_path):
        whole = made(module=(module := small.network()), optimizer=two_optimizers(module))
        for batch in whole.loader:
            whole.step(*batch)
        first = made(module=(module := small.network()), optimizer=two_optimizers(module))
        for _, batch in zip(range(5), first.loader):
            first.step(*batch)
        save_checkpoint(tmp_path / "five", first)
        for from_folder in (False, True):
            again = made(module=(module := small.network()), optimizer=two_optimizers(module))
            if from_folder:
                load_checkpoint(tmp_path / "five", again)
            else:
                again.load_state_dict(first.state_dict())
            for batch in again.loader:
                again.step(*batch)
            assert same(weights(whole), weights(again))

    def test_schedulers_and_audits(self):
        module = small.network()
        optimizers = two_optimizers(module)
        schedule = torch.optim.lr_scheduler.StepLR(optimizers[1], 1, gamma=0.5)
        run = made(module, optimizers)
        for batch in run.loader:
            run.step(*batch)
            schedule.step()
        assert run.optimizer.param_groups[1]["lr"] == 0.01 * 0.5**STEPS
        module = small.network()
        audited = audit_run(
            module, LOSS, two_optimizers(module), small.data(), plan(), small.key(4), "audit", batch_size=BATCH
        )
        for batch in audited.loader:
            audited.step(*batch)
        assert not audited.report().refuted


class TestEpochs:
    def test_fixed_batches(self):
        run, plain = made(), made()
        for batch in plain.loader:
            plain.step(*batch)
        seen = []
        for epoch, batches in run.epochs():
            assert len(batches) == 4
            for inputs, targets, examples in batches:
                run.step(inputs, targets, examples)
                seen += [epoch] * len(examples)
        assert np.bincount(seen).tolist() == [0, 400, 400, 400] and same(weights(run), weights(plain))

    def test_they_continue_after_a_state_and_after_a_break(self):
        run = made()
        for _, batch in zip(range(5), run.loader):
            run.step(*batch)
        again = made()
        again.load_state_dict(run.state_dict())
        counts = []
        for epoch, batches in again.epochs():
            counts.append((epoch, len(batches)))
            for batch in batches:
                again.step(*batch)
                if len(counts) == 1:
                    break
        assert counts == [(2, 3), (2, 2), (3, 4)]
        with pytest.raises(RuntimeError, match="took no steps"):
            for _ in made().epochs():
                pass

    def test_sampled_batches(self):
        run = made(plan_of=sampled(0.25), batch_size=None)
        numbers = []
        for epoch, batches in run.epochs():
            for batch in batches:
                run.step(*batch)
                numbers.append(epoch)
        assert numbers == [1] * 4 + [2] * 4 + [3] * 4


class TestSecretLoss:
    @pytest.mark.parametrize("options", [{}, {"microbatch": 7}, {"scale": 1024.0}])
    @pytest.mark.parametrize("clipping", ["ghost", "samples"])
    def test_it_is_the_mean_over_the_batch(self, clipping, options):
        run = made(clipping=clipping, **options)
        assert math.isnan(run.secret_loss())
        for inputs, targets, examples in run.loader:
            with torch.no_grad():
                expected = float(LOSS(run.module(inputs), targets))
            run.step(inputs, targets, examples)
            assert math.isclose(run.secret_loss(), expected, rel_tol=1e-5)
        assert "loss" not in "".join(run.state_dict()) + "".join(run.optimizer.state_dict())

    def test_with_an_adaptive_threshold_and_empty_batches(self):
        run = made(adaptive_clipping=et.torch.AdaptiveClipping())
        inputs, targets, examples = next(iter(run.loader))
        with torch.no_grad():
            expected = float(LOSS(run.module(inputs), targets))
        run.step(inputs, targets, examples)
        assert math.isclose(run.secret_loss(), expected, rel_tol=1e-5)
        run = made(plan_of=sampled(1e-4), batch_size=None)
        for inputs, targets, examples in run.loader:
            run.step(inputs, targets, examples)
            assert math.isnan(run.secret_loss()) == (len(examples) == 0)


def test_steps_in_two_threads():
    """Both would be checked as the step of the same batch, whose examples would take part in the next step, too."""
    run = made(plan_of=sampled(0.1), batch_size=None)
    batch = next(iter(run.loader))
    errors, sums = [], run._sums_of_all

    def twice():
        try:
            run.step(*batch)
        except RuntimeError as error:
            errors.append(str(error))

    def meanwhile(*arguments):
        other = threading.Thread(target=twice)
        other.start()
        other.join()
        return sums(*arguments)

    run._sums_of_all = meanwhile
    run.step(*batch)
    assert len(errors) == 1 and "another step is in progress" in errors[0]
    assert run.optimizer.noise.step == 1


@pytest.mark.parametrize("option", ["shuffle", "drop_last", "sampler", "batch_sampler"])
def test_options_that_choose_other_examples(option):
    with pytest.raises(TypeError, match=f"the plan determines the batches: omit {option}"):
        made(**{option: [0] if "sampler" in option else True})
    assert len(made(**{option: None}).loader) == STEPS


def test_modules_and_losses_that_cannot_be_trained():
    frozen = small.network().requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter is trained"):
        made(frozen)
    with pytest.raises(ValueError, match="DataParallel splits batches"):
        made(nn.DataParallel(small.network()))
    module = small.network()
    with pytest.raises(TypeError, match="loss must be a function .* got str"):
        make_private(
            module, "mse", torch.optim.SGD(module.parameters(), lr=0.1), small.data(), plan(), small.key(), "run",
            batch_size=BATCH,
        )  # fmt: skip
