"""BERT and RoBERTa in ONNX, for padded batches of any size and length."""

from __future__ import annotations

from typing import Any

from evolving_attention.attention import Dense, Dot, NoBias, Spec
from evolving_attention.errors import ConfigError
from evolving_attention.export.graph import Graph
from evolving_attention.export.maps import Site, evolved, softmax_scale

_WORDS = "embeddings.word_embeddings.weight"


NOWHERE = -1e30  # logit of padding, as in models/heads.cpp


class TextGraph:
    """Builds a text model as nodes of a graph.

    Args:
        graph: receives the nodes.
        model: a model of this package.

    Attributes:
        inputs: names of the graph's inputs, all int64 [batch, length].
        outputs: names and axes of the graph's outputs.
    """

    def __init__(self, graph: Graph, model: Any) -> None:
        self.graph, self.config, self.head = graph, model.config, model.head
        words = next(n for n, _ in model.named_parameters() if n.endswith(_WORDS))
        self.prefix = words.removesuffix(_WORDS)
        self.roberta = self.config.model_type == "roberta"
        self.inputs = ["input_ids", "attention_mask"]
        if self.config.type_vocab_size > 1:
            self.inputs.append("token_type_ids")
        self.outputs: dict[str, list[Any]] = {}

    def build(self) -> None:
        """Builds all layers and the head.

        Raises:
            ConfigError: a slot of the attention has no ONNX form.
        """
        graph = self.graph
        mask = graph.op("Cast", "attention_mask", to=1)  # float32
        self.rows = graph.op("Unsqueeze", mask, graph.integers(2))
        keys = graph.op("Unsqueeze", mask, graph.integers(1, 2))
        queries = graph.op("Unsqueeze", mask, graph.integers(1, 3))
        self.inside = graph.op("Mul", queries, keys)
        seen = graph.op("Cast", keys, to=9)  # bool
        x, carried = self.embeddings(), None
        for i in range(self.config.num_hidden_layers):
            x, carried = self.layer(i, x, carried, seen)
        if self.config.norm_first:
            x = self.norm(x, f"{self.prefix}LayerNorm")
        self.finish(x)

    def norm(self, x: str, name: str) -> str:
        return self.graph.layer_norm(x, name, self.config.layer_norm_eps)

    def embeddings(self) -> str:
        graph, prefix = self.graph, f"{self.prefix}embeddings."
        x = graph.op("Gather", graph.parameter(self.prefix + _WORDS), "input_ids")
        types = graph.parameter(f"{prefix}token_type_embeddings.weight")
        kind = "token_type_ids" if len(self.inputs) == 3 else graph.integers(0)
        x = graph.op("Add", x, graph.op("Gather", types, kind))
        table = graph.parameter(f"{prefix}position_embeddings.weight")
        x = graph.op("Add", x, graph.op("Gather", table, self.positions()))
        return self.norm(x, f"{prefix}LayerNorm")

    def positions(self) -> str:
        """Returns position ids: columns; for RoBERTa token counts after the pad id."""
        graph = self.graph
        if not self.roberta:
            shape = graph.op("Shape", "input_ids")
            length = graph.op("Gather", shape, graph.integer(1))
            return graph.op("Range", graph.integer(0), length, graph.integer(1))
        padding = graph.integer(self.config.pad_token_id)
        same = graph.op("Equal", "input_ids", padding)
        token = graph.op("Cast", graph.op("Not", same), to=7)  # int64
        count = graph.op("CumSum", token, graph.integer(1))
        return graph.op("Add", graph.op("Mul", count, token), padding)

    def layer(self, i: int, x: str, carried: str | None, seen: str) -> tuple[str, str]:
        """Returns hidden states and maps after layer i."""
        graph, config = self.graph, self.config
        name = f"{self.prefix}encoder.layer.{i}."
        first = config.norm_first
        read = self.norm(x, f"{name}attention.LayerNorm") if first else x
        mixed, maps = self.attention(i, f"{name}attention.self", read, carried, seen)
        h = graph.op("Add", graph.linear(mixed, f"{name}attention.output.dense"), x)
        if not first:
            h = self.norm(h, f"{name}attention.output.LayerNorm")
        read = self.norm(h, f"{name}intermediate.LayerNorm") if first else h
        inner = graph.linear(read, f"{name}intermediate.dense")
        inner = graph.activation(inner, config.hidden_act)
        y = graph.op("Add", graph.linear(inner, f"{name}output.dense"), h)
        return (y if first else self.norm(y, f"{name}output.LayerNorm")), maps

    def attention(
        self, i: int, name: str, x: str, carried: str | None, seen: str
    ) -> tuple[str, str]:
        """Returns P V of layer i, and its maps L."""
        graph, config = self.graph, self.config
        spec = _spec(config.attention, i)
        heads = config.num_attention_heads
        width = config.hidden_size // heads

        def split(part: str, order: list[int]) -> str:
            flat = graph.linear(x, f"{name}.{part}")
            shape = graph.integers(0, 0, heads, width)
            return graph.op("Transpose", graph.op("Reshape", flat, shape), perm=order)

        q, v = split("query", [0, 2, 1, 3]), split("value", [0, 2, 1, 3])
        assert isinstance(spec.score, Dot)  # checked by _spec()
        scale = width**-0.5 if spec.score.scale is None else spec.score.scale
        scores = graph.op("MatMul", q, split("key", [0, 2, 3, 1]))
        scores = graph.op("Mul", scores, graph.number(scale))
        layers = config.num_hidden_layers
        site = Site(graph, i, layers, name, self.inside)
        maps = evolved(spec.evolve, site, scores, carried)
        logits = graph.mixed((softmax_scale(spec.evolve, i, layers), maps))
        logits = graph.op("Where", seen, logits, graph.number(float("-inf")))
        context = graph.op("MatMul", graph.op("Softmax", logits, axis=-1), v)
        context = graph.op("Transpose", context, perm=[0, 2, 1, 3])
        return graph.op("Reshape", context, graph.integers(0, 0, -1)), maps

    # --- heads ----------------------------------------------------------------------

    def finish(self, x: str) -> None:
        """Sets the results of the task; zeros in padding."""
        config = self.config
        if self.head == "base":
            inside = self.graph.op("Mul", x, self.rows)
            self.output("last_hidden_state", inside, "length", config.hidden_size)
            if self.graph.has(f"{self.prefix}pooler.dense.weight"):
                self.output("pooler_output", self.pooled(x), config.hidden_size)
        elif self.head == "sequence_classification":
            self.output("logits", self.classified(x), config.num_labels)
        elif self.head == "token_classification":
            logits = self.graph.linear(x, "classifier")
            logits = self.graph.op("Mul", logits, self.rows)
            self.output("logits", logits, "length", config.num_labels)
        elif self.head == "question_answering":
            self.spans(x)
        elif self.head == "multiple_choice":
            value = self.graph.linear(self.pooled(x), "classifier")
            shape = self.graph.integers(1, -1)
            self.graph.name(self.graph.op("Reshape", value, shape), "logits")
            self.outputs["logits"] = [1, "batch"]  # rows: choices of one question
        else:
            logits = self.graph.op("Mul", self.words(x), self.rows)
            self.output("logits", logits, "length", config.vocab_size)
            if self.head == "pretraining":
                related = self.graph.linear(self.pooled(x), "cls.seq_relationship")
                self.output("seq_relationship_logits", related, 2)

    def output(self, name: str, value: str, *axes: Any) -> None:
        self.graph.name(value, name)
        self.outputs[name] = ["batch", *axes]

    def first_rows(self, x: str) -> str:
        """Returns [batch, hidden]: each row's first token, with padding on any side."""
        graph = self.graph
        place = graph.op("ArgMax", "attention_mask", axis=1, keepdims=1)
        return graph.op("GatherND", x, place, batch_dims=1)

    def pooled(self, x: str) -> str:
        dense = self.graph.linear(self.first_rows(x), f"{self.prefix}pooler.dense")
        return self.graph.op("Tanh", dense)

    def classified(self, x: str) -> str:
        graph = self.graph
        if not self.roberta and self.config.classifier_hidden_size is None:
            return graph.linear(self.pooled(x), "classifier")
        h = graph.op("Tanh", graph.linear(self.first_rows(x), "classifier.dense"))
        return graph.linear(h, "classifier.out_proj")

    def spans(self, x: str) -> None:
        """Sets start and end logits; -1e30 in padding."""
        graph = self.graph
        both = graph.linear(x, "qa_outputs")
        inside = graph.op("Cast", "attention_mask", to=9)  # bool
        for i, name in enumerate(("start_logits", "end_logits")):
            logits = graph.op("Gather", both, graph.integer(i), axis=2)
            logits = graph.op("Where", inside, logits, graph.number(NOWHERE))
            self.output(name, logits, "length")

    def words(self, x: str) -> str:
        """Returns vocabulary logits, with the word embedding table as weights."""
        graph = self.graph
        if self.roberta:
            dense, norm, kind = "lm_head.dense", "lm_head.layer_norm", "gelu"
            bias = "lm_head.bias"
        else:
            head = "cls.predictions."
            dense, norm = f"{head}transform.dense", f"{head}transform.LayerNorm"
            kind, bias = self.config.hidden_act, f"{head}bias"
        h = self.norm(graph.activation(graph.linear(x, dense), kind), norm)
        table = graph.op("Transpose", graph.parameter(self.prefix + _WORDS))
        return graph.op("Add", graph.op("MatMul", h, table), graph.parameter(bias))


def _spec(attention: Any, layer: int) -> Spec:
    """Returns the slots of a layer; refuses slots without an ONNX form."""
    one = attention[layer] if isinstance(attention, tuple) else attention
    spec = one if isinstance(one, Spec) else Spec(evolve=one)
    for slot, known in ((spec.score, Dot), (spec.scope, Dense), (spec.bias, NoBias)):
        if not isinstance(slot, known) or getattr(slot, "causal", False):
            raise ConfigError(
                f"export_onnx: {slot!r} in the slot {slot.slot} has no ONNX form; "
                f"expected {known.__name__}()"
            )
    return spec
