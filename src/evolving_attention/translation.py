"""Public interface of translation: parallel text, its data set, BPE, the translator."""

from evolving_attention.data.parallel import ParallelDataset
from evolving_attention.data.parallel_files import (
    ParallelText,
    read_parallel,
    read_sentences,
)
from evolving_attention.data.parallel_rows import from_rows
from evolving_attention.pipelines.translator import TokenLoss, Translation, Translator
from evolving_attention.text.bpe import train_bpe

__all__ = [
    "ParallelDataset",
    "ParallelText",
    "TokenLoss",
    "Translation",
    "Translator",
    "from_rows",
    "read_parallel",
    "read_sentences",
    "train_bpe",
]
