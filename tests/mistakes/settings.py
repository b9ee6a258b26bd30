"""Mistakes in configs, attention kinds, training arguments and evolve classes."""

from __future__ import annotations

from typing import Any

import numpy as np

import evolving_attention as ea
from evolving_attention.attention import CustomEvolve, Evolving
from mistakes.row import IDS, Row, config, model, saved


class Wrong(CustomEvolve):
    """Evolve kind whose step returns ``result(scores)``."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def step(self, scores: Any, previous: Any, context: Any) -> Any:
        return self.result(scores)


class WrongParameters(CustomEvolve):
    """Evolve kind whose parameters are not a dict."""

    def parameters(self, layer: int, num_heads: int) -> Any:
        return [1, 2]


def evolve(result: Any) -> None:
    model("BertModel", attention=Wrong(result))(IDS)


def arguments(folder: Any, **options: Any) -> ea.TrainingArguments:
    return ea.TrainingArguments(str(folder), **options)


def collated(folder: Any, collator: Any) -> Any:
    rows = [{"input_ids": [1, 2], "label": 0}]
    return ea.Trainer(model(), arguments(folder), data_collator=collator).predict(rows)


ROWS = {
    "a misspelt attribute of a config": Row(
        lambda _: setattr(config(), "hiden_size", 8),
        ea.ConfigError,
        r"unknown option 'hiden_size'",
        r"BertConfig",
        r"did you mean 'hidden_size'",
    ),
    "a pipeline for another task": Row(
        lambda _: ea.pipeline("fill-mask", "somewhere"),
        ea.ConfigError,
        r"task 'fill-mask' is not there",
        r"pipeline",
        r"text-classification",
    ),
    "a model in a pipeline without its tokenizer": Row(
        lambda _: ea.pipeline(model=model()),
        ea.ConfigError,
        r"expected its tokenizer",
        r"pipeline",
        r"pass tokenizer=",
    ),
    "no number of labels": Row(
        lambda _: model().predict(["a"], None, top_k=0),
        ea.ConfigError,
        r"top_k=0",
        r"predict",
        r"a number from 1, None for all labels",
    ),
    "a typing mistake in an option": Row(
        lambda _: ea.BertConfig(hiden_size=3),
        ea.ConfigError,
        r"unknown option 'hiden_size'",
        r"BertConfig",
        r"'hidden_size'",
    ),
    "heads that do not divide": Row(
        lambda _: config(hidden_size=25),
        ea.ConfigError,
        r"is 25",
        r"hidden_size",
        r"a multiple of num_attention_heads, 3",
    ),
    "a classifier without the pooler it reads": Row(
        lambda _: model("BertForSequenceClassification", add_pooling_layer=False),
        ea.ConfigError,
        r"add_pooling_layer = False",
        r"BertForSequenceClassification",
        r"expected True: this task needs its pooler; leave the option out",
    ),
    "a pooler for a task that has none": Row(
        lambda folder: ea.BertForMaskedLM.from_pretrained(
            saved(folder), add_pooling_layer=True
        ),
        ea.ConfigError,
        r"add_pooling_layer = True",
        r"BertForMaskedLM",
        r"expected False: this task has no pooler; leave the option out",
    ),
    "a negative size": Row(
        lambda _: config(vocab_size=-1),
        ea.ConfigError,
        r"is -1",
        r"vocab_size",
        r"an integer from 1",
    ),
    "a size in words": Row(
        lambda _: config(hidden_size="768"),
        ea.ConfigError,
        r"is '768'",
        r"hidden_size",
        r"expected an integer",
    ),
    "dropout of 1.5": Row(
        lambda _: config(hidden_dropout_prob=1.5),
        ea.ConfigError,
        r"is 1\.5",
        r"hidden_dropout_prob",
        r"a number from 0 to 1",
    ),
    "unknown activation": Row(
        lambda _: model(hidden_act="swish"),
        ea.ConfigError,
        r"'swish'",
        r"hidden_act",
        r"expected gelu",
    ),
    "relative positions": Row(
        lambda _: config(position_embedding_type="relative_key"),
        ea.ConfigError,
        r"not supported",
        r"position_embedding_type",
        r"'absolute'",
    ),
    "a decoder": Row(
        lambda _: config(is_decoder=True),
        ea.ConfigError,
        r"not supported",
        r"is_decoder = True",
        r"expected .*False",
    ),
    "regression with classes": Row(
        lambda _: config(problem_type="regression", num_labels=3),
        ea.ConfigError,
        r"problem_type = 'regression'",
        r"num_labels = 3",
        r"expected regression with 1 label",
    ),
    "classification with one label": Row(
        lambda _: config(problem_type="single_label_classification", num_labels=1),
        ea.ConfigError,
        r"problem_type = 'single_label_classification'",
        r"num_labels = 1",
        r"change one of the two",
    ),
    "a problem that is not there": Row(
        lambda _: config(problem_type="token_classification"),
        ea.ConfigError,
        r"not supported",
        r"problem_type",
        r"single_label_class",
    ),
    "weights of a class that is not there": Row(
        lambda folder: ea.Trainer(
            model(),
            arguments(folder, class_weight={"good": 2}),
            train_dataset=[{"input_ids": [5], "label": 1}],
        ).train(),
        ea.ConfigError,
        r"the class 'good'",
        r"TrainingArguments: class_weight",
        r"classes of the model: LABEL_0, LABEL_1",
    ),
    "num_labels against id2label": Row(
        lambda _: config(num_labels=2, id2label={0: "a"}),
        ea.ConfigError,
        r"id2label names 1",
        r"num_labels = 2",
        r"give one of the two",
    ),
    "id2label the other way round": Row(
        lambda _: config(id2label={"bad": "0", "good": "1"}),
        ea.ConfigError,
        r"'bad'",
        r"id2label",
        r"class numbers as keys",
    ),
    "an unknown element type": Row(
        lambda _: ea.BertModel(config(), "float16"),
        ea.ConfigError,
        r"'float16'",
        r"BertModel: dtype",
        r"one of float32",
    ),
    "another architecture's config": Row(
        lambda _: ea.RobertaModel(config()),
        ea.ConfigError,
        r"got evolving_attention\.BertConfig",
        r"RobertaModel",
        r"expected evolving_attention.RobertaConfig",
    ),
    "transformers' config": Row(
        lambda _: ea.BertModel(
            type("BertConfig", (), {"__module__": "transformers.models.bert"})()
        ),
        ea.ConfigError,
        r"got transformers\.BertConfig",
        r"BertModel",
        r"expected evolving_attention\.BertConfig, .*; use "
        r"BertConfig\.from_dict\(config\.to_dict\(\)\)",
    ),
    "a dict for a config": Row(
        lambda _: ea.AutoModel.from_config({"hidden_size": 3}),
        ea.ConfigError,
        r"got a dict",
        r"AutoModel\.from_config",
        r"ea\.BertConfig",
    ),
    "an Auto class called": Row(
        lambda _: ea.AutoModel(),
        ea.ConfigError,
        r"is made by",
        r"AutoModel",
        r"from_pretrained\(name\)",
    ),
    # --- attention
    "a typing mistake in a kind": Row(
        lambda _: config(attention="evolvng"),
        ea.ConfigError,
        r"'evolvng' is not known",
        r"evolve kind",
        r"'evolving'",
    ),
    "a number for a kind": Row(
        lambda _: config(attention=3),
        ea.ConfigError,
        r"=3",
        r"attention",
        r"expected an object such as",
    ),
    "a typing mistake in a kind's option": Row(
        lambda _: config(attention={"kind": "evolving", "alfa": 0.1}),
        ea.ConfigError,
        r"no option 'alfa'",
        r"kind 'evolving'",
        r"did you mean 'alpha'",
    ),
    "a kind without its options": Row(
        lambda _: config(attention="evolving_causal"),
        ea.ConfigError,
        r"needs alpha and beta",
        r"kind 'evolving_causal'",
        r"for example",
    ),
    "alpha of 1.5": Row(
        lambda _: Evolving(alpha=1.5, beta=0.1),
        ea.ConfigError,
        r"1\.5 is outside",
        r"evolving\] alpha",
        r"from 0 to 1",
    ),
    "an even kernel": Row(
        lambda _: Evolving(0.5, 0.1, kernel_size=4),
        ea.ConfigError,
        r"4 must be odd",
        r"kernel_size",
        r"odd, from 1 to 15",
    ),
    "an unknown initial value": Row(
        lambda _: Evolving(0.1, 0.1, conv_init="xavier"),
        ea.ConfigError,
        r"'xavier'",
        r"conv_init",
        r"one of fan_in, identity",
    ),
    "a step that returns nothing": Row(
        lambda _: evolve(lambda scores: None),
        ea.InputError,
        r"returned a NoneType",
        r"Wrong\.step",
        r"expected a Tensor",
    ),
    "a step that returns an array": Row(
        lambda _: evolve(np.asarray),
        ea.InputError,
        r"a ndarray",
        r"Wrong\.step",
        r"expected a Tensor",
    ),
    "a step that returns three": Row(
        lambda _: evolve(lambda scores: (scores, scores, scores)),
        ea.InputError,
        r"a tuple",
        r"Wrong\.step",
        r"a pair",
    ),
    "a step that returns another shape": Row(
        lambda _: evolve(lambda scores: scores.sum()),
        ea.ShapeError,
        r"returned float32 \(\)",
        r"Wrong\.step",
        r"expected the scores'",
    ),
    "parameters that are no dict": Row(
        lambda _: model("BertModel", attention=WrongParameters()),
        ea.ConfigError,
        r"returned a list",
        r"WrongParameters\.parameters",
        r"a dict",
    ),
    # --- training
    "negative learning rate": Row(
        lambda f: arguments(f, learning_rate=-1.0),
        ea.ConfigError,
        r"-1\.0",
        r"learning_rate",
        r"a number >= 0",
    ),
    "a typing mistake in a training option": Row(
        lambda f: arguments(f, learning_rat=1e-4),
        ea.ConfigError,
        r"unknown option",
        r"'learning_rat'",
        r"'learning_rate'",
    ),
    "an unknown strategy": Row(
        lambda f: arguments(f, eval_strategy="epochs"),
        ea.ConfigError,
        r"'epochs'",
        r"eval_strategy",
        r"did you mean 'epoch'",
    ),
    "the best model of none": Row(
        lambda f: arguments(f, load_best_model_at_end=True),
        ea.ConfigError,
        r"True",
        r"load_best_model_at_end",
        r"set eval_strategy",
    ),
    "two strategies": Row(
        lambda f: arguments(
            f, load_best_model_at_end=True, eval_strategy="epoch", save_strategy="steps"
        ),
        ea.ConfigError,
        r"save_strategy='steps'",
        r"load_best_model",
        r"set both to",
    ),
    "half precision": Row(
        lambda f: arguments(f, fp16=True),
        ea.ConfigError,
        r"there are no float16 kernels",
        r"fp16",
        r"use bf16=True",
    ),
    "warm-up twice": Row(
        lambda f: arguments(f, warmup_ratio=0.1, warmup_steps=10),
        ea.ConfigError,
        r"warmup_steps=10 is set too",
        r"warmup_ratio",
        r"keep warmup_st",
    ),
    "an unknown schedule": Row(
        lambda f: arguments(f, lr_scheduler_type="liner"),
        ea.ConfigError,
        r"'liner'",
        r"lr_scheduler_type",
        r"linear",
    ),
    "batches of 0": Row(
        lambda f: arguments(f, per_device_train_batch_size=0),
        ea.ConfigError,
        r"=0",
        r"per_device_train_batch_size",
        r"whole number >= 1",
    ),
    "a GPU where there is none": Row(
        lambda f: ea.Trainer(model(), arguments(f, device="cuda:99")),
        ea.BackendUnavailable,
        r"cuda:99 is not available",
        r"no CUDA kernels|no GPU|driver|this machine has",
        r'use device="cpu"',
    ),
    "a model on a GPU where there is none": Row(
        lambda f: ea.BertModel.from_pretrained(saved(f), device="cuda:99"),
        ea.BackendUnavailable,
        r"cuda:99 is not available",
        r"no CUDA kernels|no GPU|driver|this machine has",
        r'use device="cpu"',
    ),
    "an unknown device": Row(
        lambda f: ea.BertModel(config(), device="gpu"),
        ea.ConfigError,
        r"unknown device 'gpu'",
        r"device",
        r"cpu, cuda, cuda:N .* or auto",
    ),
    "a device that is no name": Row(
        lambda f: ea.BertModel(config(), device=1),
        ea.ConfigError,
        r"device=1",
        r"device",
        r"expected a name such as 'cpu'",
    ),
    "a model to nowhere": Row(
        lambda f: model().to(),
        ea.ConfigError,
        r"nothing is asked for",
        r"to",
        r"a dtype such as 'float32' or a device",
    ),
    "no training data": Row(
        lambda f: ea.Trainer(model(), arguments(f)).train(),
        ea.ConfigError,
        r"train_dataset",
        r"Trainer",
        r"pass|give|expected",
    ),
    "a callback that is no list": Row(
        lambda f: ea.Trainer(
            model(), arguments(f), callbacks=ea.callbacks.EarlyStoppingCallback(2)
        ),
        ea.ConfigError,
        r"callbacks is a EarlyStoppingCallback",
        r"Trainer",
        r"pass callbacks=\[",
    ),
    "a collator that returns a list": Row(
        lambda f: collated(f, lambda rows: rows),
        ea.InputError,
        r"returned a list",
        r"data_collator",
        r"expected a dict of arrays",
    ),
    "a collator that returns nothing": Row(
        lambda f: collated(f, lambda rows: None),
        ea.InputError,
        r"returned a NoneType",
        r"data_collator",
        r"return \{'input_ids'",
    ),
}
