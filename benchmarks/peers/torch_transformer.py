"""The Transformer and the EA-Transformer in eager PyTorch, under our parameters' names.

Written for speed without compiling: scaled_dot_product_attention where attention is
vanilla, fused mixes (``lerp``) and one ``conv2d`` over heads where maps evolve. The
output matrix is applied only at target tokens, not at padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Sizes", "Translation", "adam"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of an encoder-decoder; ``alpha`` None means vanilla attention."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    dropout: float = 0.1
    alpha: float | None = None
    beta: float = 0.1


@dataclass(frozen=True)
class Chain:
    """One of the three chains of maps: its skip, its convolution and its shift.

    ``shift`` is "" (centred), "diagonal" (one down, one right) or "query" (one down).
    """

    alpha: float = 0.0
    beta: float = 0.0
    shift: str = ""
    causal: bool = False
    evolves: bool = False


class Mask:
    """Mask of the cells that exist in the maps: as factors, and as softmax bias."""

    def __init__(self, keep: Tensor, keys: Tensor | None = None) -> None:
        self.keep = keep
        self.bias = (1.0 - (keep if keys is None else keys)) * torch.finfo(
            keep.dtype
        ).min

    @staticmethod
    def of(tokens: Tensor, dtype: torch.dtype) -> tuple[Mask, Mask]:
        """Returns masks over these tokens [B, S], for themselves and other queries."""
        keys = tokens[:, None, None, :].to(dtype)
        return Mask(keys * keys.transpose(-1, -2), keys), Mask(keys)


class Attention(nn.Module):
    """Multi-head attention of queries over a memory."""

    def __init__(self, sizes: Sizes, chain: Chain, layer: int) -> None:
        super().__init__()
        width, self.heads, self.chain = sizes.width, sizes.heads, chain
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.evolving_conv = None
        if chain.evolves and (layer > 0 or not chain.alpha):
            self.evolving_conv = nn.Conv2d(self.heads, self.heads, 3)
            taps = torch.ones(3, 3)
            if chain.shift == "diagonal":
                taps = torch.tril(taps)
            self.register_buffer("taps", taps, persistent=False)

    def forward(
        self, x: Tensor, memory: Tensor, carry: Tensor | None, mask: Mask
    ) -> tuple[Tensor, Tensor | None]:
        """Returns context [B, T, width] and the carried map."""
        places = ((self.query, x), (self.key, memory), (self.value, memory))
        q, k, v = (
            part(rows).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part, rows in places
        )
        if not self.chain.evolves:
            causal = self.chain.causal
            bias = None if causal else mask.bias.to(q.dtype)
            found = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)
            return found.transpose(1, 2).flatten(2), None
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        if carry is not None and self.chain.alpha:
            scores = torch.lerp(scores, carry, self.chain.alpha)
        if self.evolving_conv is not None:
            scores = self.grow(scores * mask.keep.to(scores.dtype))
        found = (scores + mask.bias).softmax(-1) @ v
        return found.transpose(1, 2).flatten(2), scores

    def grow(self, scores: Tensor) -> Tensor:
        """Mixes the scores with the ReLU of their shifted convolution."""
        chain, conv = self.chain, self.evolving_conv
        assert conv is not None
        # A shifted map needs no padding row (or column) after the last one it reads.
        down, right = chain.shift != "", chain.shift == "diagonal"
        padded = F.pad(scores, (1, 1 - right, 1, 1 - down))
        grown = F.relu_(F.conv2d(padded, conv.weight * self.taps, conv.bias))
        if down:
            grown = F.pad(grown, (int(right), 0, 1, 0))
        return torch.lerp(scores, grown, chain.beta)


class Sublayer(nn.Module):
    """Linear, dropout, residual, LayerNorm."""

    def __init__(self, inner: int, sizes: Sizes) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, sizes.width)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=1e-5)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Projects x, adds it to the residual, and normalises."""
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Block(nn.Module):
    """Attention and its output."""

    def __init__(self, sizes: Sizes, chain: Chain, layer: int) -> None:
        super().__init__()
        self.add_module("self", Attention(sizes, chain, layer))
        self.output = Sublayer(sizes.width, sizes)

    def forward(
        self, x: Tensor, memory: Tensor, carry: Tensor | None, mask: Mask
    ) -> tuple[Tensor, Tensor | None]:
        """Returns hidden states and the carried map."""
        found, carry = self.get_submodule("self")(x, memory, carry, mask)
        return self.output(found, x), carry


class Dense(nn.Module):
    """A linear layer under the name ``dense``."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        """Returns x W^T + b."""
        return self.dense(x)


class Layer(nn.Module):
    """Self attention, attention over the memory in the decoder, feed-forward."""

    def __init__(self, sizes: Sizes, own: Chain, cross: Chain | None, i: int) -> None:
        super().__init__()
        self.attention = Block(sizes, own, i)
        self.crossattention = None if cross is None else Block(sizes, cross, i)
        self.intermediate = Dense(sizes.width, sizes.inner)
        self.output = Sublayer(sizes.inner, sizes)


class Stack(nn.Module):
    """The layers, and the maps carried through them."""

    def __init__(self, sizes: Sizes, own: Chain, cross: Chain | None) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            Layer(sizes, own, cross, i) for i in range(sizes.layers)
        )

    def forward(
        self, x: Tensor, mask: Mask, memory: tuple[Tensor, Mask] | None = None
    ) -> Tensor:
        """Returns states of the last layer; ``memory`` comes with its own mask."""
        own = cross = None
        for layer in self.layer:
            x, own = layer.attention(x, x, own, mask)
            if memory is not None:
                x, cross = layer.crossattention(x, memory[0], cross, memory[1])
            x = layer.output(F.relu_(layer.intermediate(x)), x)
        return x


class Embeddings(nn.Module):
    """Words times √d, and positions."""

    def __init__(self, sizes: Sizes, longest: int = 1024) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.vocabulary, sizes.width)
        self.dropout = nn.Dropout(sizes.dropout)
        place, column = torch.arange(longest)[:, None], torch.arange(sizes.width)
        angle = place / 10000 ** (column // 2 * 2 / sizes.width)
        table = torch.where(column % 2 == 1, angle.cos(), angle.sin())
        self.register_buffer("positions", table, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Embeds token ids [B, T] as [B, T, width]."""
        words = self.word_embeddings(ids) * self.word_embeddings.embedding_dim**0.5
        return self.dropout(words + self.positions[: ids.shape[1]])


class Body(nn.Module):
    """Embeddings, encoder, decoder."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        alpha, beta, evolves = sizes.alpha or 0.0, sizes.beta, sizes.alpha is not None
        self.embeddings = Embeddings(sizes)
        self.encoder = Stack(sizes, Chain(alpha, beta, evolves=evolves), None)
        self.decoder = Stack(
            sizes,
            Chain(0.0, beta, "diagonal", causal=True, evolves=evolves),
            Chain(0.0, beta, "query", evolves=evolves),
        )


class Translation(nn.Module):
    """Maps source and target ids to the loss, as the benchmarks train it."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.transformer = Body(sizes)

    def hidden(self, source: Tensor, tokens: Tensor, target: Tensor) -> Tensor:
        """Returns decoder states [B, T, width]; ``tokens`` is 1 at tokens."""
        body = self.transformer
        x, y = body.embeddings(source), body.embeddings(target)
        own, others = Mask.of(tokens, x.dtype)
        earlier = Mask(x.new_ones(y.shape[1], y.shape[1]).tril())
        return body.decoder(y, earlier, (body.encoder(x, own), others))

    def forward(
        self,
        source: Tensor,
        tokens: Tensor,
        target: Tensor,
        labels: Tensor,
        smoothing: float = 0.1,
    ) -> Tensor:
        """Returns the mean cross entropy of the labels that are not -100."""
        kept = labels != -100
        found = self.hidden(source, tokens, target)[kept]
        logits = found @ self.transformer.embeddings.word_embeddings.weight.T
        return F.cross_entropy(logits, labels[kept], label_smoothing=smoothing)


def adam(model: nn.Module, lr: float = 1e-3) -> torch.optim.Adam:
    """Returns Adam as Vaswani et al. use it, fused if torch supports it on the CPU."""
    own = {"lr": lr, "betas": (0.9, 0.98), "eps": 1e-9}
    try:
        return torch.optim.Adam(model.parameters(), fused=True, **own)
    except RuntimeError:
        return torch.optim.Adam(model.parameters(), foreach=True, **own)
