"""Tokenisation: a thin interface to the ``tokenizers`` library."""

from evolving_attention.text.auto import AutoTokenizer
from evolving_attention.text.bpe import train_bpe
from evolving_attention.text.encoded import Encoded
from evolving_attention.text.tokenizer import Tokenizer
from evolving_attention.text.vocabularies import train_byte_bpe, train_wordpiece
from evolving_attention.text.word_level import train_word_level
from evolving_attention.text.word_vectors import (
    WordTable,
    WordVectors,
    checkpoint_word_vectors,
    read_word_vectors,
)

__all__ = [
    "AutoTokenizer",
    "Encoded",
    "Tokenizer",
    "WordTable",
    "WordVectors",
    "checkpoint_word_vectors",
    "read_word_vectors",
    "train_bpe",
    "train_byte_bpe",
    "train_word_level",
    "train_wordpiece",
]
