"""A tiny language pair whose second language has the words in reverse order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention.data.parallel import ParallelDataset
from evolving_attention.data.parallel_files import ParallelText
from evolving_attention.text import Tokenizer, train_bpe

WORDS = ["one", "two", "three", "four", "five", "six"]
SIZES = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 40,
}


def sentences(count: int = 60, seed: int = 0) -> ParallelText:
    """Returns pairs of 1 to 6 words."""
    random = np.random.default_rng(seed)
    rows = [random.choice(WORDS, n).tolist() for n in random.integers(1, 7, count)]
    backwards = [" ".join(row[::-1]) for row in rows]
    return ParallelText([" ".join(row) for row in rows], backwards)


def tokenizer() -> Tokenizer:
    """Returns a tokenizer of whole words."""
    text = sentences()
    return train_bpe([*text.source, *text.target], 290, model_max_length=40)


def model(words: int, seed: int = 0, **options: Any) -> Any:
    """Returns a tiny encoder-decoder."""
    ea.manual_seed(seed)
    config = ea.TransformerConfig(vocab_size=words, **{**SIZES, **options})
    return ea.TransformerForConditionalGeneration(config)


def rows(count: int = 60, seed: int = 0) -> tuple[ParallelDataset, Tokenizer]:
    """Returns a data set and its tokenizer."""
    words = tokenizer()
    return ParallelDataset.from_text(sentences(count, seed), words, 40), words


def write_files(folder: Path, name: str, text: ParallelText) -> tuple[Path, Path]:
    """Writes the pairs as files NAME.en and NAME.de."""
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{name}.en", folder / f"{name}.de"
    for file, lines in zip(files, (text.source, text.target), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    return files


def trained(folder: Path, pairs: int = 40, epochs: int = 80) -> Path:
    """Returns the folder of a model that knows these pairs by heart."""
    data, words = rows(pairs)
    one = model(len(words), dropout=0.0, norm_first=True, d_model=48)
    arguments = ea.TrainingArguments(
        str(folder / "run"),
        learning_rate=3e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=20,
        num_train_epochs=epochs,
        per_device_train_batch_tokens=200,
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    ea.Trainer(one, arguments, train_dataset=data).train()
    one.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
