"""The Trainer for masked language models; it evaluates without keeping logits."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from evolving_attention import functional as F
from evolving_attention.device_names import host_array
from evolving_attention.errors import InputError
from evolving_attention.training import batches as b
from evolving_attention.training import runtime
from evolving_attention.training.evaluate import speed_metrics
from evolving_attention.training.trainer import Trainer

# Per batch: its number, then sums over its masked tokens and its pairs.
_SUMS = ("tokens", "loss", "right", "pairs", "pair_loss", "pairs_right", "rows")


class PretrainingTrainer(Trainer):
    """A :class:`Trainer` whose evaluation counts correct tokens batch by batch.

    The Trainer passes the logits of all tokens of a data set to ``compute_metrics``:
    rows · length · vocabulary numbers. This class computes only those of masked tokens,
    and keeps none. ``evaluate`` returns

    - ``eval_masked_lm_loss``, the mean of -log p over the masked tokens, and
      ``eval_masked_accuracy``, the share of them whose most probable token is right;
    - with ``next_sentence_label`` in the batches, ``eval_next_sentence_loss`` and
      ``eval_next_sentence_accuracy``, over the rows;
    - ``eval_loss``, the sum of the losses.

    Masks are those of epoch 0, so every evaluation uses the same ones. Arguments are
    the Trainer's; evaluations ignore label smoothing.
    """

    def _scored(self, dataset: Any, prefix: str) -> dict[str, float]:
        """Returns the metrics of one pass, whose batches all processes share.

        Raises:
            InputError: the data set has no masked token.
        """
        with self.team.watching(self.args.output_dir):
            return self._counted(dataset, prefix)

    def _counted(self, dataset: Any, prefix: str) -> dict[str, float]:
        """Returns losses and accuracies, counted batch by batch."""
        rows = self._rows(dataset, "eval_dataset")
        self._loaders.compare(self.team, rows, prefix)
        loader = self._loaders.evaluation(rows, self.data_collator)
        began, total = time.monotonic(), len(loader)
        parts: list[list[float]] = []
        iterator = iter(loader)
        with runtime.evaluating(self.model):
            try:
                for number, batch in enumerate(iterator):
                    if batch is not None:
                        parts.append([number, *self._sums(batch)])
                    self._after_prediction(number + 1, total)
            finally:
                b.close(iterator)
        sums = dict.fromkeys(_SUMS, 0.0)
        for part in sorted(map(tuple, self.team.gather(parts))):
            for name, value in zip(_SUMS, part[1:], strict=True):
                sums[name] += value
        if not sums["tokens"]:
            raise InputError(
                f"evaluation: none of {sums['rows']:.0f} rows has a masked token, "
                "expected labels other than -100; evaluate masked rows"
            )
        metrics = _means(sums)
        named = {f"{prefix}_{name}": value for name, value in metrics.items()}
        seconds = time.monotonic() - began
        return named | speed_metrics(prefix, seconds, int(sums["rows"]), total)

    def _sums(self, batch: b.Batch) -> list[float]:
        """Returns the sums of a batch, in the order of ``_SUMS``."""
        inputs = self.model.at_labels(b.inputs_of(batch))
        out = self.model(**inputs)
        labels = np.asarray(inputs["labels"]).reshape(-1)
        tokens, loss, right = _counted(out.logits, labels)
        found = [tokens, loss, right, 0.0, 0.0, 0.0, float(b.row_count(batch))]
        pairs = inputs.get("next_sentence_label")
        if pairs is not None:
            found[3:6] = _counted(out.seq_relationship_logits, np.asarray(pairs))
        return found


def _counted(logits: Any, labels: np.ndarray) -> tuple[float, float, float]:
    """Returns (number of valid labels, sum of losses, correct predictions)."""
    counts = labels >= 0
    number = int(counts.sum())
    if not number:
        return 0.0, 0.0, 0.0
    rows: Any = logits.reshape(-1, logits.shape[-1])
    loss: Any = F.cross_entropy(rows, labels)
    best = host_array(rows).argmax(-1)
    right = int(((best == labels) & counts).sum())
    return float(number), float(loss.item()) * number, float(right)


def _means(sums: dict[str, float]) -> dict[str, float]:
    """Returns losses and accuracies from the sums over all batches."""
    loss = sums["loss"] / sums["tokens"]
    metrics = {
        "loss": loss,
        "masked_lm_loss": loss,
        "masked_accuracy": sums["right"] / sums["tokens"],
        "perplexity": math.exp(min(loss, 700.0)),
    }
    if sums["pairs"]:
        pair_loss = sums["pair_loss"] / sums["pairs"]
        metrics["loss"] += pair_loss
        metrics["next_sentence_loss"] = pair_loss
        metrics["next_sentence_accuracy"] = sums["pairs_right"] / sums["pairs"]
    return metrics
