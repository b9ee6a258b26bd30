"""A model, a trainer and a callback in typed code; run by tests/test_types.py."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

import evolving_attention as ea


class Losses(ea.TrainerCallback):
    """Collects logged losses."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Appends the loss."""
        self.losses += [kwargs["logs"]["loss"]] if "loss" in kwargs["logs"] else []


def accuracy(found: ea.EvalPrediction) -> dict[str, float]:
    """Share of rows whose largest logit is the label's."""
    return {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())}


def model() -> ea.BertForSequenceClassification:
    """A small classifier that evolves its maps."""
    config = ea.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
        attention=ea.attention.Evolving(alpha=0.1, beta=0.1),
    )
    return ea.BertForSequenceClassification(config).train()


def by_hand(classifier: ea.PreTrainedModel) -> tuple[float, tuple[int, ...]]:
    """Trains one step without a trainer."""
    optimizer = ea.optim.AdamW(classifier.parameters(), lr=1e-2)
    output = classifier(
        input_ids=np.array([[1, 2, 3]]), labels=np.array([1]), output_attentions=[0]
    )
    output.loss.backward()
    optimizer.step()
    return output.loss.item(), output.attentions[0].shape


def main() -> None:
    """Runs everything."""
    loss, shape = by_hand(model())
    assert loss > 0
    assert shape == (1, 2, 3, 3)
    rows = [{"input_ids": [1, 2, 3 + i % 2], "labels": i % 2} for i in range(8)]
    losses = Losses()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ea.TrainingArguments(
            output_dir=folder, max_steps=2, logging_steps=1, disable_tqdm=True
        )
        trainer = ea.Trainer(
            model(),
            arguments,
            train_dataset=rows,
            eval_dataset=rows,
            compute_metrics=accuracy,
            callbacks=[losses],
        )
        trainer.train()
        assert 0 <= trainer.evaluate()["eval_accuracy"] <= 1
    assert len(losses.losses) == 2


if __name__ == "__main__":
    main()
