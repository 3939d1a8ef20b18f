"""Private fine-tuning with Hugging Face's Transformers: a `Trainer` whose steps carry the noise of a plan.

    import evertally as et
    import evertally.transformers

    trainer = et.transformers.PrivateTrainer(
        model, arguments, train_dataset=dataset, plan=options.plan, key=key, name="run 1"
    )
    trainer.train()

It samples the plan's batches, clips the gradient of every example and adds the noise through
`evertally.torch.make_private`, whose promises and refusals it shares.
"""

try:
    import transformers as transformers
except ImportError as missing:
    raise ImportError("evertally.transformers needs Transformers: pip install transformers") from missing

from evertally.transformers._trainer import PrivateTrainer

__all__ = ["PrivateTrainer"]
