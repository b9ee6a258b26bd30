"""Vocabularies of whole words, counted on training texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole
from evolving_attention.text.build import guard
from evolving_attention.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tokenizers

Split = Literal["punctuation", "space"]
SPLITS = get_args(Split)
_SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "sep": "[SEP]"}  # ids 0, 1, 2


def train_word_level(
    texts: Iterable[str],
    vocab_size: int = 30_000,
    *,
    min_count: int = 1,
    lowercase: bool = True,
    split: Split = "punctuation",
    model_max_length: int | None = None,
) -> Tokenizer:
    """Trains a tokenizer whose tokens are the most frequent words of these texts.

    All other words become ``[UNK]``. A single text gets no special tokens; a pair is
    encoded as ``words [SEP] words`` with token type 0 up to ``[SEP]`` and 1 after it
    (Predictive Attention Transformer, appendix B.2.1). Ids 0 to 2 are ``[PAD] [UNK]
    [SEP]``; the words follow by descending frequency, equally frequent ones in the
    order of their characters.

    Args:
        texts: lines of text.
        vocab_size: maximum number of tokens, including special ones.
        min_count: words that are rarer than this are left out.
        lowercase: whether all text is lower-cased.
        split: at spaces and punctuation, or only at spaces, for texts that are already
            split into words.
        model_max_length: longest sequence of the model.

    Raises:
        ConfigError: an option is out of range.
        InputError: the texts hold no word that is frequent enough.

    Example:
        >>> from evolving_attention.text import train_word_level
        >>> tokenizer = train_word_level(["A good film.", "A bad film."])
        >>> tokenizer.tokenize("A good play.")
        ['a', 'good', '[UNK]', '.']
    """
    from tokenizers import trainers
    from tokenizers.processors import TemplateProcessing

    where, least = "train_word_level", len(_SPECIAL) + 1
    check_whole(where, least, "30000 is usual", vocab_size=vocab_size)
    check_whole(where, 1, "1 keeps every word", min_count=min_count)
    backend = _untrained(lowercase, split)
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=list(_SPECIAL.values()),
        show_progress=False,
    )
    with guard(InputError, "the vocabulary cannot be made"):
        backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() <= len(_SPECIAL):
        raise InputError(
            f"train_word_level: the texts hold no word that occurs {min_count} times, "
            "expected sentences; lower min_count, or check the files"
        )
    sep = _SPECIAL["sep"]
    backend.post_processor = TemplateProcessing(
        single="$A",
        pair=f"$A {sep} $B:1",
        special_tokens=[(sep, backend.token_to_id(sep))],
    )
    return Tokenizer(
        backend,
        settings={"do_lower_case": lowercase, "strip_accents": False},
        special_tokens=_SPECIAL,
        model_max_length=model_max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        tokenizer_class="PreTrainedTokenizerFast",
    )


def _untrained(lowercase: bool, split: Split) -> tokenizers.Tokenizer:
    """Builds a tokenizer without words."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, normalizers, pre_tokenizers

    if split not in SPLITS:
        raise ConfigError(
            f"train_word_level: split={split!r}, expected {' or '.join(SPLITS)}; "
            "choose one"
        )
    backend = Backend(models.WordLevel(unk_token=_SPECIAL["unk"]))
    # The words of GloVe keep their accents.
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=False
    )
    if split == "punctuation":
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend
