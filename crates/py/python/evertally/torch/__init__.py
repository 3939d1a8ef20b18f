"""Private training with PyTorch: any optimizer, with the noise of a plan in its gradients.

    import evertally as et
    import evertally.torch

    options = et.training.plan_training(len(dataset), 64, epochs=10, epsilon=2.0, delta=1e-5)
    loss = torch.nn.functional.cross_entropy
    run = et.torch.make_private(model, loss, optimizer, dataset, options.plan, key, "run 1")
    for epoch, batches in run.epochs():
        for inputs, targets, examples in batches:
            run.step(inputs, targets, examples)

`make_private` returns a loader with the plan's batches: sampled with the key (`evertally.training.Batches`), or in one
order for all epochs. `torch.func` computes per-example gradients. If they come from elsewhere, such as from Opacus,
wrap only the optimizer:

    private = et.torch.DPFTRL(optimizer, plan, key, "run 1", batches=batches)
    for batch in batches:
        ...                 # leaves per-example gradients in p.grad_sample, as Opacus does
        private.step()      # clip, sum, add noise, divide, optimizer.step()
        private.zero_grad()

The gradient of a step is a vector over all parameters, one after the other in the optimizer's order. Each example's
vector is clipped to the plan's norm, the vectors are summed, the increment of the plan's noise is added, and the
result is divided by the expected batch size. Everything that the optimizer computes from it is post-processing, and as
private as the plan guarantees. With the plan's mechanism `input` this is DP-SGD; with the others it is DP-FTRL, also
called DP-SGD with correlated noise (Kairouz and others 2021, Denisov and others 2022).

`clipped_gradients`, and `make_private` for most modules, clip and sum without gradients of single examples. With
`group=` the processes of `torch.distributed` share examples and noise; sharded parameters get the noise of their
shards. With `ahead=True` the noise of a step is drawn while its gradients are computed. With `tables=` rows of
embeddings get their noise when they are used. The threshold may adapt (`adaptive_clipping=AdaptiveClipping(…)`), and
with `DPAdam` the second moments are those of gradients without their noise; both in the same release and under the same
budget.

A run resumes bit for bit from its `state_dict`, or on any number of processes from `save_checkpoint`.

The module refuses the following before anything changes: batches other than the plan's; a step of the wrapped optimizer
on exact gradients; in `make_private`, batch normalization or a `collate_fn` that mixes examples; sums that are not
finite or longer than their examples allow; noise that was already used for another sum; a loss scale that follows the
gradients. The caller is responsible for the following: without `sampling` in the plan, `batches` or `examples`, no
example takes part in more steps than its `participations`, nor sooner than its `separation`; per-example gradients
depend on one example each, also if batches are padded; no other optimizer moves the weights; metrics and early stopping
do not read private data.

The noise is made on the CPU. For float32 parameters on the CPU the gradients are views of one vector, without a copy.
For others, the vector is copied to their device once per step.
"""

try:
    import torch as torch
except ImportError as missing:
    raise ImportError("evertally.torch needs PyTorch: pip install torch") from missing

from evertally.training.moments import AdaptiveClipping, SecondMoments
from evertally.torch._adam import DPAdam
from evertally.torch._audit import AuditedRun, RunAudit, audit_run
from evertally.torch._checkpoint import load_checkpoint, save_checkpoint
from evertally.torch._gradients import clip_and_sum, grad_samples
from evertally.torch._ghost import clipped_gradients
from evertally.torch._optimizer import DPFTRL
from evertally.torch._run import PrivateRun, make_private

__all__ = [
    "AdaptiveClipping",
    "AuditedRun",
    "DPAdam",
    "DPFTRL",
    "PrivateRun",
    "RunAudit",
    "SecondMoments",
    "audit_run",
    "clip_and_sum",
    "clipped_gradients",
    "grad_samples",
    "load_checkpoint",
    "make_private",
    "save_checkpoint",
]
