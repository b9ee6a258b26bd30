"""Mistakes in generation."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from mistakes.row import Row

IDS = [[4, 5, 6]]


def translator(**options: Any) -> Any:
    """A tiny encoder-decoder."""
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 20,
    }
    config = ea.TransformerConfig(vocab_size=12, **{**sizes, **options})
    return ea.TransformerForConditionalGeneration(config)


def diverged() -> Any:
    """A model whose weights are NaN."""
    model = translator()
    for _, tensor in model.named_parameters():
        tensor.copy_(np.full(tensor.shape, np.nan))
    return model


ROWS = {
    "no sources": Row(
        lambda _: translator().generate(),
        ea.InputError,
        r"input_ids is missing",
        r"generate",
        r"pass the source's token ids",
    ),
    "more beams than tokens": Row(
        lambda _: translator().generate(IDS, num_beams=13),
        ea.ConfigError,
        r"num_beams = 13",
        r"generate",
        r"expected 1 to 12 \(the target's vocabulary\)",
    ),
    "more targets than beams": Row(
        lambda _: translator().generate(IDS, num_beams=2, num_return_sequences=3),
        ea.ConfigError,
        r"num_return_sequences = 3",
        r"generate",
        r"expected 1 to 2 \(num_beams\)",
    ),
    "targets longer than positions": Row(
        lambda _: translator().generate(IDS, max_new_tokens=21),
        ea.ConfigError,
        r"max_new_tokens = 21",
        r"generate",
        r"expected 1 to 20 \(max_position_embeddings\)",
    ),
    "an option of other searches": Row(
        lambda _: translator().generate(IDS, penalty_alpha=0.5),
        ea.ConfigError,
        r"'penalty_alpha' is no option",
        r"generate",
        r"the options are: max_new_tokens, max_length",
    ),
    "an option of sampling without sampling": Row(
        lambda _: translator().generate(IDS, top_k=5),
        ea.ConfigError,
        r"top_k=5 has no effect",
        r"generate",
        r"expected do_sample=True with it, or leave it out",
    ),
    "a temperature of 0": Row(
        lambda _: translator().generate(IDS, do_sample=True, temperature=0.0),
        ea.ConfigError,
        r"temperature = 0, expected a number above 0",
        r"generate",
        r"leave do_sample out",
    ),
    "a share of probability above 1": Row(
        lambda _: translator().generate(IDS, do_sample=True, top_p=1.5),
        ea.ConfigError,
        r"top_p = 1\.5",
        r"generate",
        r"expected a number above 0, at most 1",
    ),
    "a share of probability of 0": Row(
        lambda _: translator().generate(IDS, do_sample=True, top_p=0.0),
        ea.ConfigError,
        r"top_p = 0",
        r"generate",
        r"expected a number above 0, at most 1",
    ),
    "more drawn beams than beams": Row(
        lambda _: translator().generate(
            IDS, do_sample=True, num_beams=2, num_return_sequences=3
        ),
        ea.ConfigError,
        r"num_return_sequences = 3",
        r"generate",
        r"expected 1 to 2 \(num_beams\)",
    ),
    "more tokens at least than at most": Row(
        lambda _: translator().generate(IDS, min_new_tokens=5, max_new_tokens=4),
        ea.ConfigError,
        r"min_new_tokens = 5",
        r"generate",
        r"expected at most max_new_tokens = 4",
    ),
    "rules that leave no token": Row(
        lambda _: translator().generate(
            IDS, no_repeat_ngram_size=1, min_new_tokens=14, max_new_tokens=15
        ),
        ea.ConfigError,
        r"the rules \(no_repeat_ngram_size, .*leave no token",
        r"sentence 0, step 11",
        r"loosen them, or set a smaller max_new_tokens",
    ),
    "rules that leave too few targets": Row(
        lambda _: translator().generate(
            IDS,
            num_beams=3,
            num_return_sequences=2,
            forced_bos_token_id=5,
            max_new_tokens=1,
        ),
        ea.ConfigError,
        r"leave 1 targets",
        r"sentence 0",
        r"expected num_return_sequences = 2; loosen them, or ask for fewer",
    ),
    "a prefix for another number of sources": Row(
        lambda _: translator().generate(IDS, decoder_input_ids=[[1, 4], [1, 5]]),
        ea.ShapeError,
        r"decoder_input_ids has 2 rows",
        r"generate",
        r"expected one for each of 1 sources",
    ),
    "a prefix of texts": Row(
        lambda _: translator().generate(IDS, decoder_input_ids=["Ein"]),
        ea.InputError,
        r"is 'Ein'",
        r"decoder_input_ids\[0\]",
        r"expected a list of whole numbers",
    ),
    "a token in a prefix that does not exist": Row(
        lambda _: translator().generate(IDS, decoder_input_ids=[[1, 12]]),
        ea.InputError,
        r"has the token 12",
        r"decoder_input_ids\[0\]",
        r"expected 0 to 11 \(the target's vocabulary\)",
    ),
    "a prefix that leaves no room": Row(
        lambda _: translator().generate(
            IDS, decoder_input_ids=[[1] * 10], max_new_tokens=12
        ),
        ea.ConfigError,
        r"a prefix of 10 tokens and 12 new ones take 21 positions",
        r"sentence 0",
        r"at most 20 \(max_position_embeddings\); shorten the prefix",
    ),
    "numbers for another number of sentences": Row(
        lambda _: translator().generate(IDS, sentence_numbers=[0, 1]),
        ea.ShapeError,
        r"sentence_numbers has 2 rows",
        r"generate",
        r"expected one for each of 1 sources",
    ),
    "alignments that nobody returns": Row(
        lambda _: translator().generate(IDS, output_alignments=True),
        ea.ConfigError,
        r"output_alignments=True",
        r"generate",
        r"expected return_dict_in_generate=True with it",
    ),
    "weights that are NaN": Row(
        lambda _: diverged().generate(IDS, sentence_numbers=[41]),
        ea.InputError,
        r"the score of token 0 is -?nan",
        r"sentence 41, step 1",
        r"the weights are damaged, or come from a run that diverged",
    ),
    "weights that are NaN, with beams": Row(
        lambda _: diverged().generate(
            IDS * 2, num_beams=2, decoder_input_ids=[[1, 4]] * 2
        ),
        ea.InputError,
        r"the score of token 0 is -?nan",
        r"sentence [01], step 1",
        r"the weights are damaged, or come from a run that diverged",
    ),
    "a cross attention that reads ahead": Row(
        lambda _: translator(
            cross_attention=ea.attention.EvolvingCausal(0.0, 0.1, shift="key_literal")
        ).generate(IDS),
        ea.ConfigError,
        r"reads later target tokens",
        r"generate",
        r"train it with shift='query'",
    ),
}
