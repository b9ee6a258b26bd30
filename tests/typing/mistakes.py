"""Mistakes that mypy must report: it complains about an unused ignore."""

from __future__ import annotations

import evolving_attention as ea
from evolving_attention import functional as F


def mistakes(model: ea.BertModel, x: ea.Tensor, packing: F.Packing) -> None:
    """Never called."""
    F.no_such_function(x)  # type: ignore[attr-defined]
    F.relu()  # type: ignore[call-arg]
    F.linear(x, x, activation="relu")  # type: ignore[call-arg]
    F.map_softmax(packing, x)  # type: ignore[arg-type]
    F.dropout(x, "0.1")  # type: ignore[arg-type]
    F.evolving_attention(x, x, x, 0.1)  # type: ignore[call-arg]
    x.no_such_method()  # type: ignore[attr-defined]
    name: int = x.dtype  # type: ignore[assignment]
    ea.no_such_name  # type: ignore[attr-defined]  # noqa: B018
    ea.manual_seed("0")  # type: ignore[arg-type]
    model.train(mode="yes")  # type: ignore[arg-type]
    ea.attention.Evolving("0.1", 0.1)  # type: ignore[arg-type]
    wrong: str = model(input_ids=[[1]]).logits  # type: ignore[assignment]
    print(name, wrong)
