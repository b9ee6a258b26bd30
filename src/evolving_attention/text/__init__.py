"""Tokenisation: a thin interface to the ``tokenizers`` library."""

from evolving_attention.text.auto import AutoTokenizer
from evolving_attention.text.bpe import train_bpe
from evolving_attention.text.tokenizer import Encoded, Tokenizer
from evolving_attention.text.vocabularies import train_byte_bpe, train_wordpiece

__all__ = [
    "AutoTokenizer",
    "Encoded",
    "Tokenizer",
    "train_bpe",
    "train_byte_bpe",
    "train_wordpiece",
]
