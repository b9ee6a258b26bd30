"""Tensor names of RoBERTa checkpoints."""

from __future__ import annotations

from evolving_attention.interop.bert import OLD_NORM_NAMES, POSITION_BUFFERS
from evolving_attention.interop.rules import NameTable, Tie

_HEADS = (
    r"lm_head\..+",
    r"(roberta\.)?pooler\..+",
    r"classifier\..+",
    r"qa_outputs\..+",
)

ROBERTA = NameTable(
    architecture="roberta",
    prefix="roberta.",
    renames=OLD_NORM_NAMES,
    ignored=POSITION_BUFFERS,
    ties=(
        Tie("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        Tie("lm_head.decoder.bias", "lm_head.bias"),
    ),
    allowed_new=_HEADS,
    allowed_unexpected=_HEADS,
)
