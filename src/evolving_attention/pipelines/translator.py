"""``ea.Translator``: translates sentences with a trained encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evolving_attention.autograd import evaluating
from evolving_attention.data.parallel import (
    Longer,
    ParallelDataset,
    encode,
    pack_sentences,
)
from evolving_attention.data.parallel_files import ParallelText, as_texts
from evolving_attention.errors import CheckpointError, ConfigError, InputError
from evolving_attention.field_types import check_whole
from evolving_attention.modeling.auto import AutoModelForSeq2SeqLM
from evolving_attention.modeling.generation import (
    Found,
    GenerationOptions,
    GenerativeModel,
    tell_of_limit,
)
from evolving_attention.modeling.generation_config import with_defaults
from evolving_attention.modeling.generation_options import checked, integers
from evolving_attention.text import AutoTokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Progress = Callable[[int, int], Any]
_IDS = ("pad", "bos", "eos")
_NO_LIMIT = 2**62  # tokens
_NO_LINE_END = dict.fromkeys(map(ord, "\0\n\r"), " ")


class TokenLoss(NamedTuple):
    """The loss of a model on given targets.

    Attributes:
        loss: mean of -log p over the target tokens, including the end token.
        tokens: number of target tokens.
    """

    loss: float
    tokens: int


class Translation(NamedTuple):
    """One translation of a text.

    Attributes:
        text: one line.
        score: score over all its tokens, see :class:`GenerationOutput`.
        ids: its tokens, from start token to end token.
        token_scores: log p of each of ``ids[1:]``.
        alignment: with ``output_alignments=True``, float32 [len(ids) - 1, tokens of the
            source]; the last column is the source's end token.
    """

    text: str
    score: float
    ids: list[int]
    token_scores: list[float]
    alignment: np.ndarray | None


class _Batch(NamedTuple):
    """The arguments of :meth:`Translator.translate` besides texts and options."""

    beam: int | None
    batch_size: int
    longer: Longer
    prefixes: Sequence[str] | None
    name: str
    first_line: int
    on_batch: Progress | None


class Translator:
    """An encoder-decoder with its tokenizer.

    Args:
        model: for example a :class:`TransformerForConditionalGeneration`.
        tokenizer: the tokenizer of its training; its encoding ends with the end token.

    A model may have more tokens than its tokenizer (T5: 32,128 and 32,100): tokens
    without a text are never used in translations.

    Raises:
        ConfigError: the model cannot generate targets.
        CheckpointError: the tokenizer has more tokens than the model, or other ids of
            padding, begin or end.

    Example::

        translator = ea.Translator.from_pretrained("out/en-de")
        translator.translate(["A man rides a bicycle."], beam=5)
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        if not isinstance(model, GenerativeModel):
            raise ConfigError(
                f"Translator: the model is a {type(model).__name__}, expected an "
                "encoder-decoder that generates; load it by ea.AutoModelForSeq2SeqLM"
            )
        config: Any = model.config
        sizes = {config.vocab_size, config.target_words}
        names = [name for name in _IDS if hasattr(config, f"{name}_token_id")]
        own = {name: getattr(tokenizer, f"{name}_token_id") for name in names}
        expected = {name: getattr(config, f"{name}_token_id") for name in names}
        if min(sizes) < len(tokenizer) or own != expected:
            raise CheckpointError(
                f"Translator: the tokenizer has {len(tokenizer)} tokens and the ids "
                f"{own}, expected at most the model's "
                f"{' and '.join(map(str, sorted(sizes)))} and {expected}; take the "
                "tokenizer of the model's folder"
            )
        self.model, self.tokenizer = model, tokenizer
        self.longest = int(getattr(config, "max_position_embeddings", _NO_LIMIT))

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, *, device: str = "cpu", dtype: str = "float32"
    ) -> Translator:
        """Loads the model and the tokenizer of a folder.

        Args:
            folder: output of ``evolving-attention translate train``, or a checkpoint.
            device, dtype: device and element type of the model.

        Raises:
            CheckpointError: the folder cannot be read, or the two do not fit together.
        """
        model = AutoModelForSeq2SeqLM.from_pretrained(
            folder, device=device, dtype=dtype
        )
        return cls(model, AutoTokenizer.from_pretrained(folder))

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        batch_size: int = 32,
        longer: Longer = "error",
        prefixes: Sequence[str] | None = None,
        name: str = "texts",
        first_line: int = 1,
        on_batch: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[str]:
        """Returns the translation of each text; a blank text stays empty.

        A text has the same translation alone, in any batch and in any order; with
        ``do_sample=True`` this holds for the same seed and the same text number.

        Args:
            texts: a list of texts.
            beam: number of beams; default: the model's ``generation_config``, else 5,
                or 1 with ``do_sample``. 1 means greedy search, or sampling.
            batch_size: texts that are translated together.
            longer: handling of texts with more tokens than the model has positions:
                ``"error"`` or ``"cut"``.
            prefixes: the beginning of each translation, as text.
            name: name of the texts in messages, such as their file.
            first_line: line number of the first text. By default, text i has the number
                first_line - 1 + i where sentences are numbered.
            on_batch: called with the numbers of texts and new tokens done so far.
            options: see :class:`GenerationOptions`.

        Raises:
            ConfigError: an option cannot be used.
            InputError: a value is not text, or ``prefixes`` or ``sentence_numbers`` are
                not one for each text.
            DataError: a text is too long.
        """
        asked: Mapping[str, Any] = options
        for key, usual in (("num_return_sequences", 1), ("output_alignments", False)):
            if asked.get(key, usual) != usual:
                raise ConfigError(
                    f"Translator.translate: {key}={asked[key]!r}, expected {usual}: it "
                    "returns one text each; candidates() returns all"
                )
        batch = _Batch(beam, batch_size, longer, prefixes, name, first_line, on_batch)
        one = {**options, "num_return_sequences": 1}
        found = self._translations("Translator.translate", texts, batch, one)
        return [each[0].text for each in found]

    def candidates(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        batch_size: int = 32,
        longer: Longer = "error",
        prefixes: Sequence[str] | None = None,
        name: str = "texts",
        first_line: int = 1,
        on_batch: Progress | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[list[Translation]]:
        """Returns the ``num_return_sequences`` best or sampled translations of texts.

        Args:
            texts, beam, batch_size, longer, prefixes, name, first_line, on_batch: see
                :meth:`translate`.
            options: see :class:`GenerationOptions`.

        Returns:
            For each text a list of :class:`Translation`, sorted by score for beams; for
            a blank text the same number of empty ones.

        Raises:
            ConfigError, InputError, DataError: as :meth:`translate`.
        """
        batch = _Batch(beam, batch_size, longer, prefixes, name, first_line, on_batch)
        return self._translations(
            "Translator.candidates", texts, batch, options, scored=True
        )

    def _translations(
        self,
        where: str,
        given: Sequence[str],
        batch: _Batch,
        options: Mapping[str, Any],
        scored: bool = False,
    ) -> list[list[Translation]]:
        texts = as_texts(given, f"Translator: {batch.name}")
        size, first = batch.batch_size, batch.first_line
        check_whole(where, batch_size=size, first_line=first)
        chosen = self._chosen(where, batch.beam, options)
        numbers = chosen.pop("sentence_numbers", None)
        if numbers is None:
            numbers = range(first - 1, first - 1 + len(texts))
        else:
            _check_numbers(where, numbers, len(texts))
        prefixes = self._prefixes(where, batch.prefixes, len(texts))
        rows = encode(
            texts, self.tokenizer, self.longest, batch.longer, batch.name, first
        )
        todo = [i for i, text in enumerate(texts) if text.strip()]
        todo.sort(key=lambda i: -len(rows[i]))
        copies = chosen.get("num_return_sequences", 1)
        blank = Translation("", 0.0, [], [], None)
        found = [[blank] * max(copies, 1) for _ in texts]
        ended: list[bool] = []
        tokens = 0
        for start in range(0, max(len(todo), 1), size):  # also checks options if empty
            part = todo[start : start + size]
            chosen["sentence_numbers"] = [numbers[i] for i in part]
            if prefixes is not None:
                chosen["decoder_input_ids"] = [prefixes[i] for i in part]
            sources = pack_sentences([rows[i] for i in part])
            out = self.model.search(where, sources, chosen, scored=scored)
            for j, i in enumerate(part):
                these = range(j * copies, (j + 1) * copies)
                found[i] = [self._translation(out, k) for k in these]
            ended += out.ended
            tokens += sum(len(ids) - 1 for ids in out.rows)
            if batch.on_batch is not None:
                batch.on_batch(min(start + size, len(todo)), tokens)
        tell_of_limit(where, ended, chosen)
        return found

    def _chosen(
        self, where: str, beam: int | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the checked options, including the number of beams."""
        for name, instead in (("num_beams", "beam"), ("decoder_input_ids", "prefixes")):
            if name in options:
                raise ConfigError(
                    f"{where}: {name} is given, expected {instead}=; rename it"
                )
        given = options if beam is None else {**options, "num_beams": beam}
        chosen = with_defaults(self.model.generation_config, given)
        chosen.setdefault("num_beams", 1 if chosen.get("do_sample") is True else 5)
        checked(where, chosen)
        return chosen

    def _prefixes(self, where: str, given: Any, count: int) -> list[list[int]] | None:
        if given is None:
            return None
        texts = as_texts(given, "Translator: prefixes")
        if len(texts) != count:
            raise InputError(
                f"{where}: {len(texts)} prefixes for {count} texts, expected one each "
                "('' for none)"
            )
        ids: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, max_length=_NO_LIMIT
        ).input_ids
        return ids

    def _translation(self, found: Found, k: int) -> Translation:
        ids = found.rows[k]
        scores = found.token_scores[k] if found.token_scores else []
        alignment = None if found.alignments is None else found.alignments[k]
        return Translation(self._text(ids), found.scores[k], ids, scores, alignment)

    def _text(self, ids: list[int]) -> str:
        """Returns one line of text; byte tokens may spell a line end."""
        known = [index for index in ids if index < len(self.tokenizer)]
        text: str = self.tokenizer.decode(known, skip_special_tokens=True)
        return text.translate(_NO_LINE_END).strip()

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        batch_size: int = 32,
        longer: Longer = "error",
    ) -> TokenLoss:
        """Returns the mean token loss of given translations, without label smoothing.

        Pairs with an empty side are left out.

        Args:
            sources, targets: sentences and their translations.
            batch_size: pairs per batch.
            longer: see :meth:`translate`.

        Raises:
            ConfigError: ``batch_size`` is not a number of at least 1.
            InputError: the texts are not lists of str of one length.
            DataError: a text is too long.
        """
        check_whole("Translator.score", batch_size=batch_size)
        text = ParallelText(
            as_texts(sources, "Translator: sources"),
            as_texts(targets, "Translator: targets"),
        )
        rows = ParallelDataset.from_text(text, self.tokenizer, self.longest, longer)
        order = np.argsort(-rows.lengths, kind="stable")
        total, tokens = 0.0, 0
        with evaluating(self.model):
            for start in range(0, len(order), batch_size):
                batch: dict[str, Any] = rows.gather(order[start : start + batch_size])
                del batch["row_ids"]
                out: Any = self.model(**batch)
                count = len(batch["labels"])
                total += float(out.loss.item()) * count
                tokens += count
        return TokenLoss(total / tokens, tokens)


def _check_numbers(where: str, given: Any, count: int) -> None:
    """Rejects sentence numbers that are not a list with one for each text."""
    numbers = integers(f"{where}: sentence_numbers", given)
    if len(numbers) != count:
        raise InputError(
            f"{where}: {len(numbers)} sentence_numbers for {count} texts, expected one "
            "each"
        )
