"""Models that generate, and the types of their results."""

from __future__ import annotations

import numpy as np

import evolving_attention as ea


def translated() -> np.ndarray:
    """Generates with a model created by name and task."""
    model = ea.create_model("ea_transformer_lite", task="seq2seq_lm", vocab_size=40)
    return model.generate([[5, 9]], num_beams=2, early_stopping="never")


def score(folder: str) -> float:
    """Generates with a model from a folder, and returns a score."""
    model = ea.AutoModelForSeq2SeqLM.from_pretrained(folder)
    out: ea.GenerationOutput = model.generate([[5, 9]], return_dict_in_generate=True)
    return float(out.sequences_scores[0])


def begun(translator: ea.Translator) -> list[str]:
    """Sampled translations, and candidates with the alignment of their tokens."""
    one = translator.candidates(["A dog."], num_return_sequences=2, beam=3)[0][0]
    print(one.text, one.score, one.alignment)
    return translator.translate(["A dog."], do_sample=True, top_p=0.9, prefixes=["E"])


if __name__ == "__main__":
    assert translated().shape[0] == 1
