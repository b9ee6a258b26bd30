"""Tokenisation: a thin interface to the ``tokenizers`` library."""

from evolving_attention.text.auto import AutoTokenizer
from evolving_attention.text.bpe import train_bpe
from evolving_attention.text.tokenizer import Encoded, Tokenizer

__all__ = ["AutoTokenizer", "Encoded", "Tokenizer", "train_bpe"]
