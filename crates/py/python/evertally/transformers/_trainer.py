"""A trainer with private steps."""

from __future__ import annotations

import math
import os
from typing import Any

import evertally
import torch
import transformers
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput, get_last_checkpoint

from evertally.torch import PrivateRun, make_private
from evertally.torch._examples import moved

#: The state of the run in a checkpoint's folder.
STATE = "private.pt"


class PrivateTrainer(transformers.Trainer):
    """A `transformers.Trainer` that is private by construction: its training loop takes the steps of a
    :class:`evertally.torch.PrivateRun`, and never computes the gradient of a whole batch.

    `plan`, `key`, `name`, `clipping` and `microbatch` are those of `evertally.torch.make_private`, `batch_size` too: it
    is needed for plans with a fixed order. All other arguments are the trainer's. The plan determines the batches and
    the number of steps, so `per_device_train_batch_size` and `num_train_epochs` have no effect, and another `max_steps`
    is refused. The optimizer and the learning rate's schedule are those of the arguments, and so are the times of
    logging, evaluation and saving. Gradients are not clipped a second time (`max_grad_norm`).

    The log contains learning rates and, from evaluation, metrics of `eval_dataset`: a metric of private data is another
    release. It contains no training loss, which is not private.

    Checkpoints of a run are **secret**: besides the model they contain the noise's state (`private.pt`). To publish the
    model, use `save_model()`.

    Gradient accumulation (use `microbatch`), loss scaling by `fp16`, label smoothing, several processes, and
    `compute_loss_func` are refused.
    """

    #: What the callbacks ask for; the base class sets it.
    control: transformers.TrainerControl

    def __init__(
        self,
        *arguments: Any,
        plan: evertally.training.VectorPlan,
        key: evertally.SecretKey,
        name: str,
        batch_size: int | None = None,
        clipping: str = "auto",
        microbatch: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._plan = plan
        self._private: dict[str, Any] = {"plan": plan, "key": key, "name": name, "batch_size": batch_size}
        self._private |= {"clipping": clipping, "microbatch": microbatch}
        self.run: PrivateRun | None = None
        self._refuse_other_arguments()

    def _refuse_other_arguments(self) -> None:
        refused = {
            "gradient_accumulation_steps": (self.args.gradient_accumulation_steps > 1, "use microbatch= instead"),
            "fp16": (self.args.fp16, "its loss scale depends on the gradients; use float32 or a model in bfloat16"),
            "label_smoothing_factor": (self.args.label_smoothing_factor > 0, "put it into the model's own loss"),
            f"max_steps={self.args.max_steps}": (
                self.args.max_steps not in (-1, 0, self._plan.horizon),
                f"the plan has {self._plan.horizon} steps; plan for fewer, or stop by a callback",
            ),
            "several processes": (self.args.world_size > 1, "use make_private with group="),
            "a compute_loss method": (
                type(self).compute_loss is not transformers.Trainer.compute_loss,
                "use make_private with your loss",
            ),
            "compute_loss_func": (self.compute_loss_func is not None, "use make_private with your loss"),
            "load_best_model_at_end": (self.args.load_best_model_at_end, "choosing by private data is a release"),
        }
        for name, (used, remedy) in refused.items():
            if used:
                raise ValueError(f"{name} cannot be used in a private run: {remedy}")
        if self.train_dataset is None:
            raise ValueError("train_dataset is missing: give a data set with a length and numbered examples")

    def training_step(self, *_: Any, **__: Any) -> torch.Tensor:
        """Raises an error: it would compute the gradient of a whole batch."""
        raise RuntimeError("a private run takes its steps in train(), one gradient per example")

    def train(self, resume_from_checkpoint: str | bool | None = None, **others: Any) -> TrainOutput:
        """Takes all steps of the plan, or those after a checkpoint's: of its folder, or with True of the last one in
        `output_dir`. A resumed run continues bit for bit."""
        if any(value is not None for value in others.values()):
            raise ValueError(f"train takes resume_from_checkpoint only, got {', '.join(others)}")
        run = self._prepared()
        plan, arguments = self._plan, self.args
        per_epoch = max(1, round(len(self.train_dataset) / run.optimizer.expected_batch_size))
        if resume_from_checkpoint:
            self._resume(run, resume_from_checkpoint)
        self.state.max_steps, self.state.num_train_epochs = plan.horizon, -(-plan.horizon // per_epoch)
        self.state.compute_steps(arguments, plan.horizon)
        self.control = self.callback_handler.on_train_begin(arguments, self.state, self.control)
        device = next(self.model.parameters()).device
        for inputs, targets, examples in run.loader:
            if self.control.should_training_stop:
                break
            self.control = self.callback_handler.on_step_begin(arguments, self.state, self.control)
            self.model.train()
            run.step(moved(inputs, device), moved(targets, device), examples)
            self.lr_scheduler.step()
            self.state.global_step = run.optimizer.noise.step
            self.state.epoch = self.state.global_step / per_epoch
            self.control = self.callback_handler.on_step_end(arguments, self.state, self.control)
            self._follow_control(run)
            if self.state.global_step % per_epoch == 0:
                self.control = self.callback_handler.on_epoch_end(arguments, self.state, self.control)
                self._follow_control(run)
        self.control = self.callback_handler.on_train_end(arguments, self.state, self.control)
        # The training loss is not private.
        return TrainOutput(self.state.global_step, math.nan, {"guarantee": str(plan.guarantee)})

    def _prepared(self) -> PrivateRun:
        """The run of the trainer's model, optimizer and data."""
        if self.run is None:
            self.create_optimizer()
            self.run = make_private(
                self.model,
                None,
                self.optimizer,
                self._without_unused_columns(),
                collate_fn=self.data_collator,
                num_workers=self.args.dataloader_num_workers,
                **self._private,
            )
            self.create_scheduler(self._plan.horizon, self.run.optimizer)
        return self.run

    def _without_unused_columns(self) -> Any:
        """The data set without columns that the model does not take."""
        dataset = self.train_dataset
        if not hasattr(dataset, "column_names"):
            return dataset
        return self._remove_unused_columns(dataset, description="training")

    def _follow_control(self, run: PrivateRun) -> None:
        """Logs, evaluates and saves when the callbacks ask for it."""
        if self.control.should_log:
            self.log({"learning_rate": self._get_learning_rate()})
        if self.control.should_evaluate:
            self.evaluate()
        if self.control.should_save:
            folder = os.path.join(self.args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
            self.save_model(folder, _internal_call=True)
            of_all = {"run": run.state_dict(), "schedule": self.lr_scheduler.state_dict()}
            torch.save(of_all, os.path.join(folder, STATE))
            self.state.save_to_json(os.path.join(folder, "trainer_state.json"))
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def _resume(self, run: PrivateRun, checkpoint: str | bool) -> None:
        folder = get_last_checkpoint(self.args.output_dir) if checkpoint is True else str(checkpoint)
        if folder is None or not os.path.exists(os.path.join(folder, STATE)):
            raise ValueError(f"{folder or self.args.output_dir} has no checkpoint of a private run ({STATE})")
        state = torch.load(os.path.join(folder, STATE), weights_only=True)
        run.load_state_dict(state["run"])
        self.lr_scheduler.load_state_dict(state["schedule"])
        self.state = transformers.TrainerState.load_from_json(os.path.join(folder, "trainer_state.json"))
