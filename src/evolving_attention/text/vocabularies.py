"""Trains the vocabularies of masked language models: WordPiece and byte-level BPE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from evolving_attention.errors import InputError
from evolving_attention.field_types import check_whole
from evolving_attention.text.build import BERT_TOKENS, ROBERTA_TOKENS, guard
from evolving_attention.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tokenizers

_LETTERS = 1000  # most characters in WordPiece's alphabet, by frequency


def train_wordpiece(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = True,
    model_max_length: int | None = None,
) -> Tokenizer:
    """Trains a BERT-style WordPiece tokenizer on these texts.

    Words are split at spaces and punctuation, and then into the most frequent pieces;
    pieces inside a word begin with ``##``. Characters that are not among the 1000 most
    frequent ones (a quarter of the vocabulary, if that is less) become ``[UNK]``. Ids 0
    to 4 are ``[PAD] [UNK] [CLS] [SEP] [MASK]``.

    Args:
        texts: lines of text, read twice (an iterator is put into a list).
        vocab_size: number of tokens, at least 100; short texts give fewer.
        lowercase: whether all text is lower-cased, and accents are removed.
        model_max_length: longest sequence of the model.

    Raises:
        ConfigError: ``vocab_size`` is too small.
        InputError: the texts hold no word.

    Example::

        tokenizer = train_wordpiece(open("corpus.txt"), vocab_size=8000)
        tokenizer.tokenize("unaffable")   # ['un', '##aff', '##able']
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers.processors import BertProcessing

    usual = "8000 or 30522 is usual"
    check_whole("train_wordpiece", 100, usual, vocab_size=vocab_size)
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    again = list(texts) if isinstance(texts, Iterator) else texts
    with guard(InputError, "the tokenizer cannot be trained"):
        letters = _letters(again, normalizer, min(_LETTERS, vocab_size // 4))
    unk, sep, cls = (BERT_TOKENS[name] for name in ("unk", "sep", "cls"))
    learner = Backend(models.WordPiece(unk_token=unk))
    learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    # Without explicit ids of the letters, the library would number the letters inside
    # words in hash map order, and break ties between merges by these numbers.
    inside = [f"##{letter}" for letter in letters]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*BERT_TOKENS.values(), *letters, *inside],
        limit_alphabet=0,
        show_progress=False,
    )
    start = len(BERT_TOKENS) + 2 * len(letters)
    _train("train_wordpiece", learner, again, trainer, start)
    vocab = learner.get_vocab()
    backend = Backend(
        models.WordPiece(vocab, unk_token=unk, max_input_chars_per_word=100)
    )
    backend.normalizer = normalizer
    backend.pre_tokenizer = learner.pre_tokenizer
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.post_processor = BertProcessing((sep, vocab[sep]), (cls, vocab[cls]))
    backend.add_special_tokens(list(BERT_TOKENS.values()))
    return Tokenizer(
        backend,
        settings={"do_lower_case": lowercase},
        special_tokens=BERT_TOKENS,
        model_max_length=model_max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        tokenizer_class="BertTokenizer",
    )


def train_byte_bpe(
    texts: Iterable[str],
    vocab_size: int,
    *,
    lowercase: bool = False,
    model_max_length: int | None = None,
) -> Tokenizer:
    """Trains a RoBERTa-style byte-level BPE tokenizer on these texts.

    Tokens are the most frequent byte sequences inside words, including the space before
    a word, so no text has an unknown character. Ids 0 to 4 are ``<s> <pad> </s> <unk>
    <mask>``.

    Args:
        texts: lines of text.
        vocab_size: number of tokens, at least 261; short texts give fewer.
        lowercase: whether all text is lower-cased.
        model_max_length: longest sequence of the model.

    Raises:
        ConfigError: ``vocab_size`` is too small.
        InputError: the texts hold no word.
    """
    from tokenizers import (
        AddedToken,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )
    from tokenizers import Tokenizer as Backend
    from tokenizers.processors import RobertaProcessing

    least = len(ROBERTA_TOKENS) + 256
    usual = "8000 or 50265 is usual"
    check_whole("train_byte_bpe", least, usual, vocab_size=vocab_size)
    backend = Backend(models.BPE())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = [
        # the mask token includes the space before it
        AddedToken(token, lstrip=name == "mask", normalized=False, special=True)
        for name, token in ROBERTA_TOKENS.items()
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    _train("train_byte_bpe", backend, texts, trainer, least)
    sep, cls = ROBERTA_TOKENS["sep"], ROBERTA_TOKENS["cls"]
    ends = [(token, backend.token_to_id(token)) for token in (sep, cls)]
    backend.post_processor = RobertaProcessing(*ends, add_prefix_space=False)
    return Tokenizer(
        backend,
        settings={"add_prefix_space": False},
        special_tokens={**ROBERTA_TOKENS, "bos": cls, "eos": sep},
        model_max_length=model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        # transformers' RobertaTokenizer does not lower-case
        tokenizer_class=(
            "PreTrainedTokenizerFast" if lowercase else "RobertaTokenizer"
        ),
    )


def _letters(texts: Iterable[str], normalizer: Any, most: int) -> list[str]:
    """Returns the most frequent characters of normalized texts, in order."""
    given: Counter[str] = Counter()
    for text in texts:
        given.update(text)
    counts: Counter[str] = Counter()
    for character, count in given.items():
        for letter in normalizer.normalize_str(character):
            if not letter.isspace():
                counts[letter] += count
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))
    return sorted(ranked[:most])


def _train(
    name: str,
    backend: tokenizers.Tokenizer,
    texts: Iterable[str],
    trainer: Any,
    start: int,
) -> None:
    """Train on the texts; ``start``: number of tokens that exist without any text."""
    with guard(InputError, "the tokenizer cannot be trained"):
        backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() <= start:
        raise InputError(
            f"{name}: the texts hold no word that could become a token, expected "
            "sentences; check the files"
        )
