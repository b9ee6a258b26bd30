"""Checks tokenizers that the tokenizers library has built from untrusted files.

The library refuses most damaged files itself. It accepts some of them and computes
wrong or random ids: these checks inspect the built tokenizer, so they cover every file
format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evolving_attention.errors import CheckpointError
from evolving_attention.text.time_limit import TimeLimit, has_regex

if TYPE_CHECKING:
    import tokenizers

MAX_ID = 10_000_000


def check_backend(backend: Any, file: str) -> None:
    """Refuse a tokenizer whose ids do not match its vocabulary, or are random.

    Args:
        backend: the tokenizer built by the library, or an object with its interface.
        file: the tokenizer's file, for messages.

    Raises:
        CheckpointError: ids are too large or shared, the unknown token or a special
            token around the text is not in the vocabulary, or merges are random.
    """

    def check(good: object, what: str, expected: str) -> None:
        if not good:
            raise CheckpointError(
                f"{file}: {what}, expected {expected}; the file is damaged, fetch it "
                "again"
            )

    vocab = backend.get_vocab()
    least, most = min(vocab.values(), default=0), max(vocab.values(), default=0)
    size = backend.get_vocab_size(with_added_tokens=False)
    check(size, "there are no tokens", "a vocabulary")
    large = f"token {backend.id_to_token(most)!r} has the id {most}"
    check(most <= MAX_ID, large, f"an id from 0 to {MAX_ID}")
    check(len({*vocab.values()}) == len(vocab), "tokens share an id", "one id each")
    unknown = getattr(backend.model, "unk_token", None)
    good = unknown is None or backend.model.token_to_id(unknown) is not None
    check(good, f"the unknown token is {unknown!r}", "a token of the vocabulary")
    dropout = getattr(backend.model, "dropout", None)
    check(not dropout, f"model.dropout is {dropout}", "none (it is random)")
    limit = TimeLimit(has_regex(backend), CheckpointError, file)

    def encode(text: Any, special: bool = True) -> tokenizers.Encoding:
        def run() -> tokenizers.Encoding:
            return backend.encode_batch([text], add_special_tokens=special)[0]

        return limit.run(run, 0)

    text = backend.id_to_token(least)
    length = len(encode(text, special=False))
    for count, place, given in ((1, "a text", text), (2, "a pair", (text, text))):
        row = encode(given)
        short = f"{place} of {count * length} tokens has {len(row)} of them"
        check(len(row) >= count * length, short, "all, and special tokens")
        ids = [vocab.get(token) for token in row.tokens]
        check(row.ids == ids, f"{place} has the ids {row.ids}", f"{ids} as in vocab")
