"""Generated questions in SQuAD's format, and a tiny model with their vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import evolving_attention as ea

COLOURS = ["red", "green", "blue", "white", "black"]
THINGS = ["cat", "dog", "house", "door", "car", "tree"]
WORDS = [*COLOURS, *THINGS, "the", "is", "what", "colour", "has", "?", ".", "of"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", *WORDS, "##s"]
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}


def paragraph(random: Any, things: int) -> tuple[str, dict[str, str]]:
    """Returns a context that states the colours of ``things``, and the colours."""
    chosen = random.choice(THINGS, things, replace=False)
    colours = {thing: str(random.choice(COLOURS)) for thing in map(str, chosen)}
    return " ".join(f"The {t} is {c}." for t, c in colours.items()), colours


def document(count: int = 8, seed: int = 0, unanswerable: bool = False) -> Any:
    """Returns SQuAD content of ``count`` contexts, with two questions about each."""
    random = np.random.default_rng(seed)
    paragraphs = []
    for i in range(count):
        context, colours = paragraph(random, 2 + i % 3)
        asked = list(colours)[:2]
        if unanswerable and i % 2:
            asked[1] = next(t for t in THINGS if t not in colours)
        qas = []
        for j, thing in enumerate(asked):
            fact = f"The {thing} is "
            at = context.find(fact)
            known = at >= 0
            answer = {"text": colours.get(thing, ""), "answer_start": at + len(fact)}
            one = {
                "id": f"{seed}-{i}-{j}",
                "question": f"What colour has the {thing}?",
                "answers": [answer, dict(answer)] if known else [],
            }
            qas.append({**one, "is_impossible": not known} if unanswerable else one)
        paragraphs.append({"context": context, "qas": qas})
    data = [{"title": "Things", "paragraphs": paragraphs}]
    return {"version": "2.0" if unanswerable else "1.1", "data": data}


def write(path: Path, content: Any) -> Path:
    """Writes the content as a JSON file."""
    path.write_text(json.dumps(content))
    return path


def questions(folder: Path, **options: Any) -> Any:
    """Returns the questions of :func:`document`, read from a file."""
    return ea.squad.load(write(folder / "questions.json", document(**options)))


def tokenizer(folder: Path) -> Any:
    """Returns a WordPiece tokenizer of BERT with :data:`VOCAB`."""
    (folder / "vocab.txt").write_text("\n".join(VOCAB))
    config = {"model_type": "bert", "max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(config))
    return ea.AutoTokenizer.from_pretrained(folder)


def model(name: str = "BertForQuestionAnswering", **options: Any) -> Any:
    """Returns a tiny model with that vocabulary."""
    ea.manual_seed(3)
    config = ea.BertConfig(vocab_size=len(VOCAB), **{**SIZES, **options})
    return getattr(ea, name)(config)


def folder_of(path: Path, name: str = "BertModel", **options: Any) -> Path:
    """Writes a folder with a tiny model and its tokenizer."""
    path.mkdir(parents=True, exist_ok=True)
    model(name, **options).save_pretrained(path)
    (path / "vocab.txt").write_text("\n".join(VOCAB))
    return path
