"""Fine-tuning of models of Transformers: their masks, adapters, and a trainer that is private by construction."""

from typing import Any

import evertally as et
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import evertally.torch  # noqa: E402
import evertally.transformers  # noqa: E402

WORDS = 40
SMALL = {"vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 32}
SMALL |= {"num_hidden_layers": 2, "num_attention_heads": 2}


def classifier(attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(**SMALL, **without, attn_implementation=attention)
    return transformers.BertForSequenceClassification(config)


def writer(attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, attn_implementation=attention))


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 60

    def __getitem__(self, number: int) -> Any:
        length = 3 + number % 6
        words = [2 + number * place % (WORDS - 2) for place in range(1, length + 1)]
        mask = [1] * length + [0] * (8 - length)
        return {"input_ids": words + [0] * (8 - length), "attention_mask": mask, "labels": number % 2}


@pytest.mark.parametrize("clipping", ["samples", "ghost"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("model", [classifier, writer])
def test_sums_are_those_of_single_examples(model, attention, clipping):
    module = model(attention)
    batch = torch.utils.data.default_collate([{n: torch.tensor(v) for n, v in Rows()[i].items()} for i in range(4)])
    if model is writer:
        batch["labels"] = batch["input_ids"]
    if clipping == "ghost":
        sums = et.torch.clipped_gradients(module, None, batch, batch, 1e9)
    else:
        et.torch.grad_samples(module, None, batch, batch)
        none = [torch.zeros(4, *p.shape) for p in module.parameters()]
        samples = [zeros if p.grad_sample is None else p.grad_sample for p, zeros in zip(module.parameters(), none)]
        sums = et.torch.clip_and_sum(samples, 1e9)
    module.zero_grad()
    for place in range(4):
        module(**{name: values[place : place + 1] for name, values in batch.items()}).loss.backward()
    for parameter, total in zip(module.parameters(), sums):
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(total, wanted, atol=1e-5, rtol=1e-4)


def test_adapters():
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(
        classifier(), peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"])
    )
    before = {name: value.clone() for name, value in adapted.named_parameters() if not value.requires_grad}
    plan = et.training.plan_vector(3, rho=1.0, participations=1)
    optimizer = torch.optim.AdamW([p for p in adapted.parameters() if p.requires_grad])
    run = et.torch.make_private(adapted, None, optimizer, Rows(), plan, et.SecretKey.generate(), "run", batch_size=20)
    for batch in run.loader:
        run.step(*batch)
    trained = dict(adapted.named_parameters())
    assert all(torch.equal(trained[name], value) for name, value in before.items())
    assert len(run.optimizer.parameters) == sum(p.requires_grad for p in adapted.parameters())


PLAN = et.training.plan_vector(6, rho=1.0, participations=2, separation=3)


def trainer(folder: Any, key: Any, kind: Any = None, **changes: Any) -> Any:
    arguments = {"save_steps": 3, "logging_steps": 2, "eval_strategy": "steps", "eval_steps": 3, "learning_rate": 1e-2}
    arguments |= {"report_to": [], "use_cpu": True, "disable_tqdm": True, **changes}
    return (kind or et.transformers.PrivateTrainer)(
        classifier(),
        transformers.TrainingArguments(output_dir=str(folder), **arguments),
        train_dataset=Rows(),
        eval_dataset=Rows(),
        plan=PLAN,
        key=key,
        name="run",
        batch_size=20,
    )


def test_a_trainer_resumes_bit_for_bit(tmp_path):
    key = et.SecretKey.generate()
    whole = trainer(tmp_path, key)
    result = whole.train()
    assert result.global_step == 6 and result.metrics == {"guarantee": str(PLAN.guarantee)}
    logged = [sorted(entry) for entry in whole.state.log_history]
    assert any("eval_loss" in entry for entry in logged) and not any("loss" in entry for entry in logged)
    resumed = trainer(tmp_path, key)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.state.global_step == 6
    assert all(map(torch.equal, whole.model.parameters(), resumed.model.parameters()))
    again = trainer(tmp_path, key)
    assert again.train(resume_from_checkpoint=True).global_step == 6  # nothing is left to do
    assert all(map(torch.equal, whole.model.parameters(), again.model.parameters()))


def test_a_trainer_is_the_run_without_it(tmp_path):
    key = et.SecretKey.generate()
    made = trainer(tmp_path, key, lr_scheduler_type="constant", weight_decay=0.0, optim="adamw_torch")
    made.train()
    module = classifier()
    names = {id(p): name for name, p in made.model.named_parameters()}  # the trainer's optimizer has another order
    own = dict(module.named_parameters())
    ordered = [own[names[id(p)]] for group in made.optimizer.param_groups for p in group["params"]]
    optimizer = torch.optim.AdamW(ordered, lr=1e-2, weight_decay=0.0)
    run = et.torch.make_private(module, None, optimizer, Rows(), PLAN, key, "run", batch_size=20, clipping="ghost")
    for batch in run.loader:
        run.step(*batch)
    for one, other in zip(made.model.parameters(), module.parameters()):
        torch.testing.assert_close(one, other)


def test_what_a_trainer_refuses(tmp_path):
    key = et.SecretKey.generate()
    for changes, name in (
        ({"gradient_accumulation_steps": 2}, "microbatch"),
        ({"label_smoothing_factor": 0.1}, "label_smoothing"),
        ({"load_best_model_at_end": True}, "load_best_model"),
        ({"max_steps": 3}, "max_steps=3 cannot be used"),
    ):
        with pytest.raises(ValueError, match=name):
            trainer(tmp_path, key, **changes)

    class Own(et.transformers.PrivateTrainer):
        def compute_loss(self, *_: Any, **__: Any) -> Any:
            return None

    with pytest.raises(ValueError, match="compute_loss"):
        trainer(tmp_path, key, kind=Own)
    made = trainer(tmp_path, key)
    with pytest.raises(RuntimeError, match="one gradient per example"):
        made.training_step(made.model, {})
    with pytest.raises(ValueError, match="no checkpoint"):
        made.train(resume_from_checkpoint=True)
    with pytest.raises(ValueError, match="trial"):
        made.train(trial="one")

    def to_the_longest(rows: Any) -> Any:
        longest = max(int(row["attention_mask"].sum()) for row in rows)
        words = [{name: row[name][:longest] for name in ("input_ids", "attention_mask")} for row in rows]
        short = [own | {"labels": row["labels"]} for own, row in zip(words, rows)]
        return torch.utils.data.default_collate(short)

    mixing = trainer(tmp_path, key)
    mixing.data_collator = to_the_longest
    with pytest.raises(et.InvalidError, match="fixed beforehand"):
        mixing.train()
