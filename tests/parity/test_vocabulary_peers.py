"""Our trained tokenizers, loaded by transformers: the same ids, also of the mask."""

from __future__ import annotations

import pytest
from helpers_pretraining import documents

from evolving_attention.text import train_byte_bpe, train_wordpiece

transformers = pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity
TEXTS = [line for lines in documents(30) for line in lines]
MORE = ["The cat {} a dog.", "Zyx, 家 żółw!", "{}", "", "a  b", "THE {}{} cat"]


@pytest.mark.parametrize(
    ("train", "size"), [(train_wordpiece, 150), (train_byte_bpe, 340)]
)
def test_transformers_reads_the_folder(train, size, tmp_path):
    ours = train(TEXTS, size, model_max_length=40)
    ours.save_pretrained(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.mask_token_id == ours.mask_token_id
    assert theirs.pad_token_id == ours.pad_token_id
    for text in [*TEXTS[:20], *(one.format(*[ours.mask_token] * 2) for one in MORE)]:
        assert theirs(text)["input_ids"] == ours(text).input_ids, text
