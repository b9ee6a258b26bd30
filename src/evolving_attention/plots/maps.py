"""Draws the attention maps of one sentence layer by layer, one row per model."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evolving_attention.errors import InputError, ShapeError
from evolving_attention.plots.figures import INK, draw_frame, heading, new_figure
from evolving_attention.plots.strips import HEIGHT, draw_strip, series_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Layers = Mapping[int, ArrayLike] | Sequence[ArrayLike]

_COLOUR_MAP = "magma_r"  # perceptually uniform; light means no attention
_COLUMNS = 6
_LONGEST_LABEL = 14  # maximum characters shown of a token
_PADDING = 1e-2  # largest share of a row that may be cut off as padding
_MARGIN_RIGHT, _TITLE_HEIGHT, _CAPTION, _GAP = 0.95, 0.68, 0.26, 0.14  # inches


def layer_similarity(maps: Sequence[NDArray[np.floating]]) -> list[float]:
    """Returns the correlation of each layer's map with the previous layer's map.

    Args:
        maps: one ``[T, T]`` or ``[T, S]`` array per layer.

    Returns:
        Pearson correlations over all cells, one fewer than there are maps; 0 where a
        map is constant.
    """
    result = []
    for previous, current in itertools.pairwise(maps):
        a, b = previous.ravel() - previous.mean(), current.ravel() - current.mean()
        scale = float(np.sqrt((a @ a) * (b @ b)))
        result.append(float(a @ b) / scale if scale > 0 else 0.0)
    return result


def _one_map(
    name: str, layer: int, value: ArrayLike, head: int | None, shape: tuple[int, int]
) -> Any:
    """Returns one layer's map with this shape: the mean over heads, or one head."""
    rows, columns = shape
    array = np.asarray(value, dtype=np.float64)
    where = f"[attention_evolution] {name!r}, layer {layer}: attention"
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 4:
        raise ShapeError(
            f"{where} holds {array.shape[0]} sentences, expected one: index the batch, "
            "for example attentions[i][:1]"
        )
    if array.ndim == 2:
        array = array[None]
    square = rows == columns
    if array.ndim != 3 or (square and array.shape[1] != array.shape[2]):
        expected = "(heads, tokens, tokens)" if square else "(heads, queries, tokens)"
        raise ShapeError(
            f"{where} has shape {array.shape}, expected {expected}; of cross attention "
            "pass queries= too"
        )
    for found, wanted, what in zip(
        array.shape[1:], shape, ("queries", "tokens"), strict=True
    ):
        if found < wanted:
            what = "tokens" if square else what
            raise ShapeError(
                f"{where} covers {found} {what}, but {wanted} {what} were given: pass "
                "the tokens the model saw, special ones included"
            )
    lost = np.abs(array[:, :rows, columns:]).sum(axis=-1)
    if lost.size and lost.max() > _PADDING:
        raise ShapeError(
            f"{where} covers {array.shape[2]} tokens, but {columns} tokens were given, "
            f"and the others have a share of up to {lost.max():.2f}: pass the tokens "
            "the model saw, special ones included"
        )
    if head is None:
        return array[:, :rows, :columns].mean(axis=0)
    if not 0 <= head < array.shape[0]:
        raise InputError(
            f"{where} has {array.shape[0]} heads, head is {head}: choose 0 to "
            f"{array.shape[0] - 1}, or None for their mean"
        )
    return array[head, :rows, :columns]


def _collect(
    attentions: Mapping[str, Layers] | Layers,
    head: int | None,
    shape: tuple[int, int],
) -> dict[str, dict[int, NDArray[np.float64]]]:
    """Converts any of the accepted forms to ``{model: {layer: map}}``."""
    is_mapping = isinstance(attentions, Mapping)
    by_model = is_mapping and any(isinstance(key, str) for key in attentions)
    given: Any = attentions
    named: Mapping[Any, Any] = given if by_model else {"": given}
    result = {}
    for name, layers in named.items():
        items = layers.items() if isinstance(layers, Mapping) else enumerate(layers)
        result[str(name)] = {
            int(i): _one_map(str(name), i, value, head, shape)
            for i, value in items
            if value is not None  # the layer was not requested
        }
    if not result or not all(result.values()):
        raise InputError(
            "[attention_evolution] there are no attention maps: call the model with "
            "output_attentions=True and pass .attentions"
        )
    return result


def _label_size(count: int, inches: float) -> tuple[int, float]:
    """Returns the interval between labelled tokens, and the label size in points."""
    points = 72 * inches / count
    step = int(np.ceil(6.0 / points))  # labels below 6 pt are not readable
    return step, min(9.0, max(6.0, 0.88 * points * step))


def _label_room(tokens: Sequence[str], inches: float) -> float:
    """Returns the inches that the longest token label needs next to a panel."""
    step, size = _label_size(len(tokens), inches)
    longest = max(len(_short(token)) for token in tokens[::step])
    return 0.1 + 0.62 * size / 72 * longest


def _labels(axes: Axes, which: str, tokens: Sequence[str], inches: float) -> None:
    """Draws token labels along an axis, as large as cells allow, thinned if needed."""
    step, size = _label_size(len(tokens), inches)
    ticks = list(range(0, len(tokens), step))
    axis = getattr(axes, f"{which}axis")
    axis.set_ticks(ticks)
    texts = [_short(tokens[i]) for i in ticks]
    axis.set_ticklabels(texts, rotation=90 if which == "x" else 0)
    for text in axis.get_ticklabels():
        text.set(fontsize=size, color=INK, parse_math=False)


def _short(token: str) -> str:
    token = "".join(c if c.isprintable() else "\N{WHITE SQUARE}" for c in token)
    return token if len(token) <= _LONGEST_LABEL else token[: _LONGEST_LABEL - 1] + "…"


def attention_evolution(
    attentions: Mapping[str, Layers] | Layers,
    tokens: Sequence[str],
    *,
    queries: Sequence[str] | None = None,
    head: int | None = None,
    title: str | None = None,
    highest: float | None = None,
    series: ArrayLike | None = None,
) -> Figure:
    """Draw the attention maps of one sentence or series, layer by layer.

    Rows of a map are queries, columns are keys; every row sums to 1. The number above a
    map is its correlation with the previous layer's map; it is higher if evolving
    attention passes maps from layer to layer.

    Args:
        attentions: probabilities of one model, or ``{"vanilla": …, "evolving": …}`` for
            several, with one row each. Each model has ``{layer: array}`` or a list of
            arrays; an array is ``[heads, T, T]``, ``[1, heads, T, T]`` or ``[T, T]``.
        tokens: the T tokens, including special ones; for a series its time steps.
        queries: for cross-attention the target's tokens, which attend to ``tokens``;
            then an array is ``[heads, queries, tokens]``. None: the same as ``tokens``.
        head: one head, from 0; None draws the mean over heads.
        title: line above the figure; None: a default title.
        highest: probability at the dark end of the colour scale; None: the largest one.
        series: values [T, channels] to draw above the columns.

    Returns:
        A matplotlib figure; :func:`evolving_attention.plots.save` writes it.

    Raises:
        ShapeError: a map does not fit the tokens; it may be longer only by padding.
        InputError: there are no tokens or no maps, or the head does not exist.
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> maps = {"vanilla": [np.eye(3)[None]] * 2, "evolving": [np.eye(3)[None]] * 2}
        >>> figure = attention_evolution(maps, ["[CLS]", "hello", "[SEP]"])
    """
    word, (tokens, looking) = _word(tokens, series), _texts(tokens, queries)
    models = _collect(attentions, head, (len(looking), len(tokens)))
    values = series_values(series, len(tokens))
    strip = 0.0 if values is None else HEIGHT
    layers = sorted({i for maps in models.values() for i in maps})
    columns = min(_COLUMNS, len(layers))
    bands = -(-len(layers) // columns)  # long stacks continue in further rows
    panel = 1.9 if columns > 2 else 2.8
    below = _label_room(tokens, panel)
    left = (0.42 if list(models) != [""] else 0.12) + _label_room(looking, panel)
    step = panel + _CAPTION + _GAP
    band_height = strip + len(models) * step + below
    width = left + columns * (panel + _GAP) + _MARGIN_RIGHT
    height = _TITLE_HEIGHT + bands * band_height
    figure = new_figure(width, height)
    top = max(float(m.max()) for maps in models.values() for m in maps.values())
    norm = _norm(top if highest is None else highest)
    image = None
    for k, layer in enumerate(layers):
        band, column = divmod(k, columns)
        x = left + column * (panel + _GAP)
        for row, (name, maps) in enumerate(models.items()):
            if layer not in maps:
                continue
            y = height - _TITLE_HEIGHT - band * band_height - strip - row * step
            if values is not None and row == 0:
                box = (x / width, y / height, panel / width, 0.8 * strip / height)
                draw_strip(figure, box, values)
            y -= _CAPTION + panel
            box = (x / width, y / height, panel / width, panel / height)
            axes = figure.add_axes(box)
            image = _draw_map(axes, maps[layer], norm)
            last_row = row == len(models) - 1
            labels = looking if column == 0 else [], tokens if last_row else []
            _decorate(axes, maps[layer].shape, labels, panel)
            axes.set_title(_caption(maps, layer), fontsize=8.5, color=INK, pad=3)
            if column == 0 and name:
                _name_row(figure, name, 0.24 / width, (y + panel / 2) / height)
    _finish(figure, image, title, (head, word), models, (width, height))
    return figure


def _texts(
    tokens: Sequence[str], queries: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Returns the tokens of the columns and of the rows.

    Raises:
        InputError: there are none.
    """
    columns = [str(token) for token in tokens]
    rows = columns if queries is None else [str(token) for token in queries]
    for name, found in (("tokens", columns), ("queries", rows)):
        if not found:
            raise InputError(
                f"[attention_evolution] {name} is empty: pass the T tokens"
            )
    return columns, rows


def _draw_map(axes: Axes, map: NDArray[np.float64], norm: Any) -> Any:
    """Draws one map into its square panel, for any shape."""
    return axes.imshow(
        map, cmap=_COLOUR_MAP, norm=norm, interpolation="nearest", aspect="auto"
    )


def _word(tokens: Sequence[Any], series: ArrayLike | None) -> str:
    """Returns the word for a map's row: numbers and series have time steps."""
    numbered = all(isinstance(token, (int, np.integer)) for token in tokens)
    return "time step" if numbered or series is not None else "token"


def _name_row(figure: Figure, name: str, x: float, y: float) -> None:
    """Draws the model's name vertically at the left of its row."""
    figure.text(
        x,
        y,
        name,
        rotation=90,
        va="center",
        ha="center",
        fontsize=12,
        fontweight="bold",
        color=INK,
        parse_math=False,
    )


def _norm(highest: float) -> Any:
    """Returns a colour scale from 0, stretched at its low end for weak attention."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.65, vmin=0.0, vmax=max(highest, 1e-6))


def _caption(maps: Mapping[int, NDArray[np.float64]], layer: int) -> str:
    text = f"layer {layer + 1}"
    if layer - 1 in maps:
        text += f"   r = {layer_similarity([maps[layer - 1], maps[layer]])[0]:.2f}"
    return text


def _decorate(
    axes: Axes,
    shape: tuple[int, ...],
    labels: tuple[Sequence[str], Sequence[str]],
    panel: float,
) -> None:
    """Draws row and column labels, and thin white lines between the cells."""
    axes.set_xticks([])
    axes.set_yticks([])
    for which, tokens in zip("yx", labels, strict=True):
        if tokens:
            _labels(axes, which, tokens, panel)
    axes.tick_params(length=0, pad=2)
    draw_frame(axes)
    if max(shape) <= 32:
        rows, columns = (np.arange(0.5, count - 1) for count in shape)
        thin: Any = {"colors": "white", "linewidths": 0.4}
        axes.hlines(rows, -0.5, shape[1] - 0.5, **thin)
        axes.vlines(columns, -0.5, shape[0] - 0.5, **thin)


def _finish(
    figure: Figure,
    image: Any,
    title: str | None,
    shown: tuple[int | None, str],
    models: Mapping[str, Mapping[int, Any]],
    size: tuple[float, float],
) -> None:
    """Draws the title, its explanation and the colour bar.

    ``shown`` is the head, or None for the mean of heads, and the word for a map's row.
    """
    (head, word), (width, height) = shown, size
    which = "mean over heads" if head is None else f"head {head}"
    note = f"row: {word} that looks, column: {word} looked at; {which}"
    if any(len(maps) > 1 for maps in models.values()):
        note += "; r: correlation with the layer before"
    heading(figure, title or "Attention through the layers", note)
    bar_height = min(3.0, 0.5 * height)
    bar = figure.add_axes(
        (
            1 - 0.76 / width,
            0.5 - bar_height / height / 2,
            0.16 / width,
            bar_height / height,
        )
    )
    figure.colorbar(image, cax=bar)
    bar.tick_params(labelsize=8, colors=INK, length=2)
    bar.set_title("p", fontsize=9, color=INK, style="italic")
    draw_frame(bar)
