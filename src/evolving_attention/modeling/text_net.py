"""Text nets trained from scratch: Transformer, Conv-Transformer and CNN."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np

from evolving_attention.attention import Vanilla
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.interop.config_rules import Rules
from evolving_attention.interop.text_net import TEXT_NET
from evolving_attention.modeling.config import PretrainedConfig
from evolving_attention.modeling.names import register_sizes
from evolving_attention.modeling.placement import refuse_overflow
from evolving_attention.modeling.text import TextModel

_Self = TypeVar("_Self", bound="TextNetForSequenceClassification")

_WORDS = "text_net.embeddings.word_embeddings.weight"
_RULES = Rules(
    integers={"embedding_size": (1, 65_536), "kernel_size": (1, 1_023)},
    numbers={"attention_ratio": (0.0, 1.0), "embedding_dropout_prob": (0.0, 1.0)},
    strings=("relative",),
    flags=("dense_connections", "fixed_words"),
)


class TextNetConfig(PretrainedConfig):
    """Sizes of text nets over word vectors, by default those of the paper's SST.

    A net maps word vectors to ``hidden_size`` features (a 1 × 1 convolution), runs
    post-norm layers over them and classifies the mean of the last layer's tokens. With
    e the vector of a token's word and f that of its text (first or second of a pair):

    - x₀ = W drop(e) + b + f
    - z = C [x₀, …, x_{l−1}] (dense connections; the first layer reads x₀)
    - h = LN(z + drop(W_O mixed(z))),  x_l = LN(h + drop(W₂ act(W₁ h)))
    - logits = V drop(mean x_L) + c

    mixed(z) is attention, a convolution along the text, or both side by side, each with
    its share of the features; a layer with both has no W_O.

    Args:
        vocab_size: number of words, including padding and the separator of pairs.
        embedding_size: width of the word vectors; GloVe's 300.
        hidden_size: d, width of the layers.
        num_hidden_layers: M, layers.
        num_attention_heads: K; must divide ``attention_ratio`` · d.
        attention_ratio: share of the features that attention computes; the convolution
            computes the others. 1: Transformer; 0.5: Conv-Transformer, with 4 heads in
            the paper; 0: CNN.
        kernel_size: taps of the convolution, odd.
        intermediate_size: width of the feed-forward.
        hidden_act: its activation.
        dense_connections: whether each layer from the second on reads an affine map of
            all previous hidden states, as in DenseNet, or only the last one.
        relative: ``"learned"``: relative positions of Shaw et al. (2018), one table per
            layer for distances up to ``max_position_embeddings`` − 1, added to the
            scores before these evolve; ``"none"``, which the scope ``Window`` needs;
            None: learned, unless ``attention`` has its own bias.
        max_position_embeddings: tokens of the longest text (for pairs: both texts with
            the separator); in the paper 64 for SST and SNLI, 256 for Yelp.
        type_vocab_size: 1: single texts; 2: pairs; a learned vector for the first or
            the second text is added to each token.
        pad_token_id: id of the padding word, which gets no gradient.
        fixed_words: whether training leaves the word vectors unchanged; set them with
            :meth:`TextNetForSequenceClassification.set_word_vectors`.
        embedding_dropout_prob: dropout of the word vectors.
        hidden_dropout_prob: dropout of the outputs of attention, convolution and
            feed-forward.
        attention_probs_dropout_prob: dropout of attention probabilities.
        classifier_dropout: dropout before the classifier; None:
            ``hidden_dropout_prob``.
        initializer_range: standard deviation of new word and text tables; other weights
            are initialised as by Glorot and Bengio (2010).
        layer_norm_eps: epsilon of all norms.
        num_labels: number of classes; names go to ``id2label``.
        attention: see :class:`PretrainedConfig`; ``Predictive(alpha, num_layers)`` for
            the nets of the paper, with 0 to 3 predicting convolutions.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range, or an
            attention option is set on a net without attention.

    Example:
        >>> import evolving_attention as ea
        >>> attention = ea.attention.Predictive(alpha=0.1, num_layers=2)
        >>> config = ea.TextNetConfig(num_labels=5, attention=attention)
        >>> config.hidden_size, config.num_hidden_layers
        (256, 3)

    Source: Predictive Attention Transformer, Sections 3.3 to 4.1 and B.2.1, with the
    sizes of its Table 1. The paper does not say what dense connections join (here all
    previous states, mapped back to d, which gives its number of parameters), how a text
    becomes one vector (here the mean), where the norms are, what else a layer with both
    branches contains, nor where the vector of a text is added.
    """

    model_type = "text_net"
    rules = _RULES
    defaults: ClassVar[dict[str, Any]] = {
        "vocab_size": 30522,
        "embedding_size": 300,
        "hidden_size": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "attention_ratio": 1.0,
        "kernel_size": 3,
        "intermediate_size": 1024,
        "hidden_act": "relu",
        "dense_connections": True,
        "relative": None,
        "max_position_embeddings": 64,
        "type_vocab_size": 1,
        "pad_token_id": 0,
        "fixed_words": False,
        "embedding_dropout_prob": 0.4,
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.1,
        "layer_norm_eps": 1e-5,
    }

    def _check_attention(self) -> None:
        source = type(self).__name__
        if self.attention_ratio == 0 and not (
            isinstance(self.attention, Vanilla) and self.relative is None
        ):
            raise ConfigError(
                f"{source}: attention={self.attention!r}, relative={self.relative!r} "
                "with attention_ratio = 0, a net without attention; expected neither: "
                "leave both out, or take a larger attention_ratio"
            )


class TextNetForSequenceClassification(TextModel):
    """Classifies texts and pairs of texts; see :class:`TextNetConfig`.

    A pair is one sequence: the first text, a separator, the second text, with
    ``token_type_ids`` 0 for the first and the separator, 1 for the second, and needs
    ``type_vocab_size=2``. The loss is cross entropy (mean squared error for
    ``num_labels=1``, binary cross entropy for several labels per text).

    Example:
        >>> import numpy as np
        >>> import evolving_attention as ea
        >>> sizes = {"vocab_size": 20, "embedding_size": 6, "hidden_size": 16}
        >>> config = ea.TextNetConfig(**sizes, num_attention_heads=2, num_labels=3)
        >>> model = ea.TextNetForSequenceClassification(config)
        >>> vectors = np.zeros((20, 6), np.float32)
        >>> ids = np.array([[4, 7, 1], [5, 0, 0]])
        >>> model.set_word_vectors(vectors)(ids, ids != 0).logits.shape
        (2, 3)
    """

    config_class = TextNetConfig
    table = TEXT_NET
    head = "sequence_classification"

    def _build(self, config: PretrainedConfig, dtype: str) -> None:
        super()._build(config, dtype)
        if config.fixed_words:
            dict(self._named)[_WORDS].requires_grad = False

    def set_word_vectors(self: _Self, vectors: Any) -> _Self:
        """Sets the word vectors, in place; returns the model.

        They are saved with the model. The config's ``fixed_words`` decides whether
        training changes them.

        Args:
            vectors: numbers [vocab_size, embedding_size], a row for each word's id.

        Raises:
            InputError: they have another shape, are not numbers, not finite, or more
                than the model's element type holds.
        """
        given = np.asarray(vectors)
        where = f"{type(self).__name__}.set_word_vectors: vectors"
        table = dict(self._named)[_WORDS]
        if given.dtype.kind not in "fiu":
            raise InputError(
                f"{where} are {given.dtype}, expected numbers; pass an array of float32"
            )
        if given.shape != tuple(table.shape):
            raise InputError(
                f"{where} have shape {given.shape}, expected {tuple(table.shape)}: "
                "vocab_size rows of embedding_size numbers; give a row for each word, "
                "or let the config have these sizes"
            )
        broken = np.flatnonzero(~np.isfinite(given).all(axis=1))
        if len(broken):
            raise InputError(
                f"{where}[{broken[0]}] holds NaN or infinity, expected finite numbers; "
                "fill in or leave out that word"
            )
        refuse_overflow(given, self.dtype, where, InputError)
        table.copy_(given)
        return self


_TASK = "sequence_classification"
_BOTH: dict[str, Any] = {"attention_ratio": 0.5, "num_attention_heads": 4}
register_sizes("text_transformer", TextNetConfig, task=_TASK)
register_sizes("text_conv_transformer", TextNetConfig, task=_TASK, **_BOTH)
register_sizes("text_cnn", TextNetConfig, ("",), _TASK, attention_ratio=0.0)
