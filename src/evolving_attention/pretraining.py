"""Public interface of pre-training: corpora, tokenizers, masks, data, Trainer."""

from evolving_attention.data.corpus import corpus_files, corpus_texts
from evolving_attention.data.masking import DataCollatorForLanguageModeling
from evolving_attention.data.pretraining import PretrainingDataset
from evolving_attention.text.vocabularies import train_byte_bpe, train_wordpiece
from evolving_attention.training.pretraining import PretrainingTrainer

__all__ = [
    "DataCollatorForLanguageModeling",
    "PretrainingDataset",
    "PretrainingTrainer",
    "corpus_files",
    "corpus_texts",
    "train_byte_bpe",
    "train_wordpiece",
]
