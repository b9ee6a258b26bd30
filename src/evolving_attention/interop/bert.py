"""Tensor names of BERT checkpoints, from the original release's to today's."""

from __future__ import annotations

from evolving_attention.interop.rules import NameTable, Tie

# Conversions from TensorFlow call the layer norm parameters gamma and beta.
OLD_NORM_NAMES = (
    (r"LayerNorm\.gamma$", "LayerNorm.weight"),
    (r"LayerNorm\.beta$", "LayerNorm.bias"),
)
POSITION_BUFFERS = (r"(.+\.)?embeddings\.(position_ids|token_type_ids)",)
_HEADS = (
    r"cls\.predictions\..+",
    r"cls\.seq_relationship\..+",
    r"(bert\.)?pooler\..+",
    r"classifier\..+",
    r"qa_outputs\..+",
)

BERT = NameTable(
    architecture="bert",
    prefix="bert.",
    renames=OLD_NORM_NAMES,
    ignored=POSITION_BUFFERS,
    ties=(
        Tie("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        Tie("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
    allowed_new=_HEADS,
    allowed_unexpected=_HEADS,
)
