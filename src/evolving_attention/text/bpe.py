"""Trains a byte-level BPE tokenizer on text (Sennrich et al., 2016)."""

from __future__ import annotations

from collections.abc import Iterable

from evolving_attention.errors import InputError
from evolving_attention.field_types import check_whole
from evolving_attention.text.build import guard
from evolving_attention.text.tokenizer import Tokenizer

SPECIAL_TOKENS = {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}  # ids 0, 1, 2
_LEAST = len(SPECIAL_TOKENS) + 256  # every byte is a token


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = False,
    model_max_length: int | None = None,
) -> Tokenizer:
    """Trains a tokenizer whose tokens are the most frequent pieces of these texts.

    Tokens are byte sequences inside words, including the space before a word, so every
    text can be encoded and decoding restores it. Encoding ends with the end token.

    Args:
        texts: sentences; for a joint vocabulary, those of both languages.
        vocab_size: number of tokens, at least 259; short texts give fewer.
        lowercase: whether all text is lower-cased.
        model_max_length: longest sequence of the model.

    Raises:
        ConfigError: ``vocab_size`` is too small.
        InputError: the texts hold no word.

    Example::

        tokenizer = train_bpe([*text.source, *text.target], vocab_size=8000)
        tokenizer("A house.").input_ids   # ends with 2, the end token
    """
    from tokenizers import (
        Tokenizer as Backend,
    )
    from tokenizers import (
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    usual = "bytes alone are 256; 8000 suits 30,000 pairs of sentences"
    check_whole("train_bpe", _LEAST, usual, vocab_size=vocab_size)
    backend = Backend(models.BPE())
    steps = [normalizers.NFC(), *([normalizers.Lowercase()] if lowercase else [])]
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=list(SPECIAL_TOKENS.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    with guard(InputError, "the tokenizer cannot be trained"):
        backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() == _LEAST:
        raise InputError(
            "train_bpe: the texts hold no word of two letters that could become a "
            "token, expected sentences; check the files"
        )
    end = SPECIAL_TOKENS["eos"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}",
        pair=f"$A {end} $B {end}",
        special_tokens=[(end, backend.token_to_id(end))],
    )
    return Tokenizer(
        backend,
        settings={},
        special_tokens=SPECIAL_TOKENS,
        model_max_length=model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        tokenizer_class="PreTrainedTokenizerFast",
    )
