"""backward() reports final gradients, and adds each pass's gradient in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers_models import tiny

import evolving_attention as ea

F = ea.functional
KINDS = {
    "vanilla": ea.attention.Vanilla(),
    "evolving": ea.attention.Evolving(0.2, 0.1, kernel_size=3, conv_init="identity"),
    "residual": ea.attention.Residual(running_mean=True),
}


def inputs(count: int = 9, seed: int = 0) -> dict[str, np.ndarray]:
    """A packed batch of two sequences with labels for a tiny model's tokens."""
    ids = np.random.default_rng(seed).integers(2, 40, count)
    return {"input_ids": ids, "sequence_offsets": np.array([0, 4, count])}


def loss_of(model: Any, seed: int = 0) -> Any:
    batch = inputs(seed=seed)
    masked = type(model).__name__.endswith("MaskedLM")
    labels = batch["input_ids"] if masked else np.array([0, 1])
    return model(**batch, labels=labels).loss


def gradients(parameters: list[Any]) -> list[np.ndarray | None]:
    """Returns copies of the gradients; row gradients are expanded only in the copy."""
    found: list[np.ndarray | None] = []
    for parameter in parameters:
        rows = parameter.row_grad
        if rows is None:
            grad = parameter.grad
            found.append(None if grad is None else np.array(grad))
        else:
            whole = np.zeros(parameter.shape, np.asarray(rows[1]).dtype)
            whole[np.asarray(rows[0])] = np.asarray(rows[1])
            found.append(whole)
    return found


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "BertForMaskedLM"])
def test_a_gradient_is_final_when_it_is_told(
    name: str, kind: str, recomputes: bool
) -> None:
    model = tiny(name, KINDS[kind]).train()
    if recomputes:
        model.gradient_checkpointing_enable()
    names, parameters = zip(*model.named_parameters(), strict=True)
    told: dict[int, Any] = {}

    def complete(index: int) -> None:
        assert index not in told, names[index]
        told[index] = gradients([parameters[index]])[0]

    loss_of(model).backward(leaves=list(parameters), on_complete=complete)
    for index, found in enumerate(gradients(list(parameters))):
        if index in told:
            np.testing.assert_array_equal(told[index], found, err_msg=names[index])
        else:
            assert found is None, names[index]
    order = [names[index] for index in told]
    assert "embeddings" in order[-1]
    last, first = (
        next(i for i, n in enumerate(order) if f"layer.{layer}." in n)
        for layer in (2, 0)
    )
    assert last < first  # reported while backward runs, not at its end


def test_leaves_that_no_gradient_reaches_are_told_too() -> None:
    used, unused = (ea.Tensor(np.ones(3, np.float32), requires_grad=True) for _ in "ab")
    told: list[int] = []
    ((used * used).sum() + 0.0).backward(leaves=[unused, used], on_complete=told.append)
    assert told == [1]
    assert unused.grad is None


def test_an_error_in_the_callback_ends_backward() -> None:
    x = ea.Tensor(np.ones(3, np.float32), requires_grad=True)

    def refuse(index: int) -> None:
        raise KeyError(index)

    with pytest.raises(KeyError):
        x.sum().backward(leaves=[x], on_complete=refuse)


FOREIGN = (
    "f(): incompatible function arguments. Expected:\n  1. (a: int)\n\nInvoked with: "
)


@pytest.mark.parametrize("text", ["\udcff", FOREIGN], ids=["not UTF-8", "pybind11"])
def test_type_errors_of_callbacks_keep_their_text(text: str) -> None:
    def refuse(index: int) -> None:
        raise TypeError(text)

    x = ea.Tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError) as caught:
        x.sum().backward(leaves=[x], on_complete=refuse)
    assert str(caught.value) == text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_two_passes_give_the_sum_of_their_gradients(dtype: str) -> None:
    """Bit for bit, where a parameter is used twice in each pass."""
    model = tiny("BertForMaskedLM", dtype=dtype, tie_word_embeddings=True).train()
    parameters = [p for _, p in model.named_parameters()]
    state = ea.get_rng_state()
    for seed in (1, 2):
        ea.set_rng_state(state)
        loss_of(model, seed).backward()
    both = gradients(parameters)
    parts = []
    for seed in (1, 2):
        for parameter in parameters:
            parameter.grad = None
        ea.set_rng_state(state)
        loss_of(model, seed).backward()
        parts.append(gradients(parameters))
    for found, one, two in zip(both, *parts, strict=True):
        if found is not None:
            np.testing.assert_array_equal(found, one + two)


def test_rows_are_added_as_backward_adds_them() -> None:
    table = ea.Tensor(np.ones((6, 2), np.float32), requires_grad=True)
    assert not table.is_table
    F.embedding(table, np.array([4, 1, 4])).sum().backward()
    assert table.is_table
    ids, rows = table.row_grad
    assert ids.numpy().tolist() == [1, 4]
    table.add_row_grad(np.array([0, 4]), rows)
    ids, rows = table.row_grad
    assert ids.numpy().tolist() == [0, 1, 4]
    assert rows.numpy().tolist() == [[1, 1], [1, 1], [4, 4]]
    assert table.grad.numpy()[4].tolist() == [4, 4]
    assert table.row_grad is None


@pytest.mark.parametrize(
    ("ids", "rows", "words"),
    [
        ([4, 1], np.ones((2, 2)), "increasing ids from 0 to 5"),
        ([6], np.ones((1, 2)), "increasing ids from 0 to 5"),
        ([1], np.ones((1, 3)), "expected ids .k. and rows"),
        ([], np.ones((0, 2)), "expected ids .k. and rows"),
    ],
)
def test_wrong_rows(ids: list[int], rows: np.ndarray, words: str) -> None:
    table = ea.Tensor(np.ones((6, 2), np.float32), requires_grad=True)
    with pytest.raises(ea.InputError, match=words):
        table.add_row_grad(np.array(ids, np.int64), rows.astype(np.float32))


def test_adding_in_place() -> None:
    x = ea.Tensor(np.arange(3, dtype=np.float32))
    x.add_(ea.Tensor(np.ones(3, np.float32)))
    assert x.numpy().tolist() == [1, 2, 3]
    with pytest.raises(ea.ShapeError, match="add_"):
        x.add_(ea.Tensor(np.ones(2, np.float32)))
