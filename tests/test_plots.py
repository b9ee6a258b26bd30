"""Figures show their input with legible labels; errors name the remedy."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from evolving_attention import errors, plots
from evolving_attention.plots.figures import colours
from evolving_attention.plots.maps import layer_similarity

TOKENS = "[CLS] the librarian that the visitors ridicule smiles . [SEP]".split()  # noqa: SIM905


def maps(layers=3, heads=4, n=10, seed=0):
    random = np.random.default_rng(seed)
    return [random.dirichlet(np.ones(n), (heads, n)) for _ in range(layers)]


def panels(figure):
    """Returns the axes of the maps, without the colour bar."""
    return [axes for axes in figure.axes if axes.images]


def shown_texts(figure):
    """Returns all visible texts with their bounding boxes in pixels, panel by panel."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    for axes in panels(figure):
        for axis in (axes.xaxis, axes.yaxis):
            labels = [t for t in axis.get_ticklabels() if t.get_text()]
            yield [(t, t.get_window_extent(renderer)) for t in labels]


@pytest.mark.parametrize("head", [None, 0, 3])
def test_each_panel_shows_its_map(head):
    vanilla, evolving = maps(seed=1), maps(seed=2)
    figure = plots.attention_evolution(
        {"vanilla": vanilla, "evolving": evolving}, TOKENS, head=head
    )
    drawn = [np.asarray(axes.images[0].get_array()) for axes in panels(figure)]
    expected = [m for pair in zip(vanilla, evolving, strict=True) for m in pair]
    assert len(drawn) == len(expected) == 6
    for got, want in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(got, want.mean(0) if head is None else want[head])


@pytest.mark.parametrize(
    ("count", "layers"), [(10, 6), (24, 12), (60, 6), (3, 1), (120, 2)]
)
def test_labels_are_legible_and_do_not_overlap(count, layers):
    tokens = (TOKENS * 12)[:count]
    figure = plots.attention_evolution(maps(layers, 2, count), tokens)
    for labels in shown_texts(figure):
        boxes = [box for _, box in labels]
        assert all(text.get_fontsize() >= 6 for text, _ in labels)
        for a, b in itertools.pairwise(boxes):
            assert not a.shrunk(0.8, 0.8).overlaps(b.shrunk(0.8, 0.8))


def test_panels_do_not_overlap_and_stay_inside():
    figure = plots.attention_evolution({"a": maps(12), "b": maps(12)}, TOKENS)
    figure.canvas.draw()
    boxes = [axes.get_position() for axes in panels(figure)]
    assert all(0 <= b.x0 < b.x1 <= 1 and 0 <= b.y0 < b.y1 <= 1 for b in boxes)
    for a, b in itertools.combinations(boxes, 2):
        assert min(a.x1, b.x1) <= max(a.x0, b.x0) or min(a.y1, b.y1) <= max(a.y0, b.y0)
    renderer = figure.canvas.get_renderer()
    whole = figure.bbox
    for text in figure.findobj(lambda artist: hasattr(artist, "get_text")):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent(renderer)
            assert 0 <= box.x0 < box.x1 <= whole.x1, text.get_text()
            assert 0 <= box.y0 < box.y1 <= whole.y1, text.get_text()


def test_a_series_stands_over_the_columns_of_its_maps():
    values = np.random.default_rng(0).normal(size=(10, 3))
    figure = plots.attention_evolution(
        {"a": maps(8), "b": maps(8)}, range(10), series=values
    )
    figure.canvas.draw()
    strips = [axes for axes in figure.axes if axes.lines and not axes.images]
    assert len(strips) == 8
    for strip, column in zip(strips, panels(figure)[::2], strict=True):
        for line, channel in zip(strip.lines, values.T, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), channel)
        above, below = strip.get_position(), column.get_position()
        assert (above.x0, above.x1) == pytest.approx((below.x0, below.x1))
        assert below.y1 < above.y0 < above.y1 <= 1
    boxes = [axes.get_position() for axes in strips + panels(figure)]
    for a, b in itertools.combinations(boxes, 2):
        assert min(a.x1, b.x1) <= max(a.x0, b.x0) or min(a.y1, b.y1) <= max(a.y0, b.y0)
    with pytest.raises(errors.ShapeError, match=r"\(3, 10\).*give series.T"):
        plots.attention_evolution(maps(), range(10), series=values.T)


@pytest.mark.parametrize(
    ("tokens", "series", "word"),
    [
        (range(10), None, "time step"),
        ([f"t{i}" for i in range(10)], np.zeros((10, 1)), "time step"),
        ([str(i) for i in range(10)], None, "token"),
    ],
)
def test_the_note_names_the_rows(tokens, series, word):
    figure = plots.attention_evolution(maps(), tokens, series=series)
    texts = [text.get_text() for text in figure.texts]
    assert any(f"row: {word} that looks, column: {word} l" in text for text in texts)


HISTORY = [
    {"epoch": 1, "loss": 0.7, "validation_loss": 0.6, "validation_accuracy": 0.5},
    {"epoch": 2, "loss": 0.5, "validation_loss": 0.4, "validation_accuracy": 0.8},
]


@pytest.mark.parametrize("metrics", [None, ["validation_accuracy"]])
def test_the_history_of_an_estimator_is_drawn_over_epochs(metrics):
    figure = plots.training_curves({"a": HISTORY, "b": HISTORY}, metrics)
    loss, accuracy = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == ["epoch"] * 2
    train, evaluation = loss.lines[:2]
    assert train.get_xydata().tolist() == [[1, 0.7], [2, 0.5]]
    assert evaluation.get_xydata().tolist() == [[1, 0.6], [2, 0.4]]
    assert accuracy.get_title(loc="left") == "accuracy"
    assert accuracy.lines[0].get_ydata().tolist() == [0.5, 0.8]


def test_curves_leave_out_no_run_and_no_metric_that_was_asked_for():
    with pytest.raises(errors.InputError, match=r"'net' counts epochs.*'bert' steps"):
        plots.training_curves({"bert": LOG, "net": HISTORY})
    with pytest.raises(errors.InputError, match="no record has a number 'eval_fi'"):
        plots.training_curves(LOG, ["eval_fi"])
    assert len(plots.training_curves(LOG, "eval_f1").axes) == 2
    loss = plots.training_curves({"stopped": [], "net": HISTORY}).axes[0]
    assert loss.get_xlabel() == "epoch"
    assert loss.get_lines()
    (line, *_) = plots.training_curves(HISTORY[:1]).axes[0].get_lines()
    assert line.get_marker() == "o"


@pytest.mark.parametrize(("rows", "columns"), [(4, 10), (17, 5), (5, 60), (40, 3)])
def test_cross_attention_has_rows_of_its_own(rows, columns):
    random = np.random.default_rng(0)
    given = [random.dirichlet(np.ones(columns), (2, rows)) for _ in range(7)]
    source = (TOKENS * 6)[:columns]
    target = [f"Wort{i}" for i in range(rows)]
    figure = plots.attention_evolution({"a": given, "b": given}, source, queries=target)
    drawn = panels(figure)
    assert len(drawn) == 14
    for axes, want in zip(drawn[::2], given, strict=True):
        image = np.asarray(axes.images[0].get_array())
        np.testing.assert_allclose(image, want.mean(0))
        box = axes.get_position()
        inches = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
        assert inches[0] == pytest.approx(inches[1])
    first, below = drawn[0], drawn[1]
    step = -(-rows // len(first.get_yticklabels()))
    assert [t.get_text() for t in first.get_yticklabels()] == target[::step]
    step = -(-columns // len(below.get_xticklabels()))
    shown = [t.get_text() for t in below.get_xticklabels()]
    assert shown == [s if len(s) <= 14 else s[:13] + "…" for s in source[::step]]
    for labels in shown_texts(figure):
        assert all(text.get_fontsize() >= 6 for text, _ in labels)
        for (_, a), (_, b) in itertools.pairwise(labels):
            assert not a.shrunk(0.8, 0.8).overlaps(b.shrunk(0.8, 0.8))
    with pytest.raises(errors.ShapeError, match=r"expected \(heads, tokens, tokens\);"):
        plots.attention_evolution(given, source)
    with pytest.raises(
        errors.ShapeError, match=f"covers {rows} queries, but {rows + 1}"
    ):
        plots.attention_evolution(given, source, queries=[*target, "more"])
    with pytest.raises(errors.InputError, match="queries is empty"):
        plots.attention_evolution(given, source, queries=[])


def test_chosen_layers_keep_their_numbers():
    some = maps(6)
    figure = plots.attention_evolution({0: some[0], 4: some[4], 5: some[5]}, TOKENS)
    titles = [axes.get_title() for axes in panels(figure)]
    assert [title.split("   ")[0] for title in titles] == [
        "layer 1",
        "layer 5",
        "layer 6",
    ]
    assert ["r =" in title for title in titles] == [False, False, True]


def test_tokens_are_text_not_formulas():
    tokens = ["$x$", r"\frac", "a\x00b\n", "y" * 40]
    figure = plots.attention_evolution(maps(1, 1, 4), tokens, title="$broken")
    texts = [t.get_text() for t in panels(figure)[0].get_yticklabels()]
    assert texts[:2] == ["$x$", r"\frac"]
    assert len(texts[3]) <= 14
    figure.canvas.draw()


def test_padding_beyond_the_tokens_is_not_drawn():
    n = len(TOKENS)
    padded = [np.pad(one, ((0, 0), (0, 2), (0, 2))) for one in maps(1, 2, n)]
    figure = plots.attention_evolution(padded, TOKENS)
    shape = np.asarray(panels(figure)[0].images[0].get_array()).shape
    assert shape == (len(TOKENS), len(TOKENS))


def test_similarity_is_the_correlation():
    a, b = (m.mean(0) for m in maps(2))
    got = layer_similarity([a, b, b, np.ones_like(b)])
    np.testing.assert_allclose(got[0], np.corrcoef(a.ravel(), b.ravel())[0, 1])
    np.testing.assert_allclose(got[1:], [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("attentions", "tokens", "head", "error", "says"),
    [
        (maps(), [], None, errors.InputError, "pass the T tokens"),
        ([], TOKENS, None, errors.InputError, "output_attentions=True"),
        (maps(n=4), TOKENS, None, errors.ShapeError, "covers 4 tokens"),
        (maps(n=12), TOKENS, None, errors.ShapeError, "covers 12 tokens, but 10"),
        (maps(n=12), TOKENS, 1, errors.ShapeError, "special ones included"),
        (maps(), TOKENS, 4, errors.InputError, "choose 0 to 3"),
        ([np.ones((2, 4, 10, 10))], TOKENS, None, errors.ShapeError, "2 sentences"),
        ([np.ones((4, 10, 9))], TOKENS, None, errors.ShapeError, "(4, 10, 9)"),
    ],
)
def test_mistakes(attentions, tokens, head, error, says):
    with pytest.raises(error) as caught:
        plots.attention_evolution(attentions, tokens, head=head)
    assert says in str(caught.value)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saved_twice_gives_the_same_bytes(tmp_path, suffix):
    figure = plots.attention_evolution(maps(2), TOKENS)
    paths = [plots.save(figure, tmp_path / f"{i}" / f"map.{suffix}") for i in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert [p.name for p in (tmp_path / "a").iterdir()] == [f"map.{suffix}"]


def test_save_names_the_formats_it_knows(tmp_path):
    figure = plots.attention_evolution(maps(1), TOKENS)
    with pytest.raises(errors.InputError, match=r"'map\.gifx'.*expected one of.*png"):
        plots.save(figure, tmp_path / "map.gifx")


LOG = [
    {"step": 10, "epoch": 0.5, "loss": 0.7, "learning_rate": 1e-5},
    {"step": 20, "epoch": 1.0, "loss": 0.5},
    {"step": 20, "eval_loss": 0.6, "eval_f1": 0.8, "eval_runtime": 3.0},
    {"step": 40, "eval_loss": 0.55, "eval_f1": 0.82, "train_loss": 0.5},
]


def test_curves_draw_what_the_log_says(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in LOG) + '\n{"step": 50, "lo')
    figure = plots.training_curves(tmp_path)
    loss, f1 = figure.axes
    assert f1.get_title(loc="left") == "f1"
    np.testing.assert_allclose(loss.lines[0].get_xydata(), [[10, 0.7], [20, 0.5]])
    np.testing.assert_allclose(loss.lines[1].get_xydata(), [[20, 0.6], [40, 0.55]])
    np.testing.assert_allclose(f1.lines[0].get_xydata(), [[20, 0.8], [40, 0.82]])


def test_several_runs_share_the_panels():
    figure = plots.training_curves({"vanilla": LOG, "evolving": LOG}, ["eval_f1"])
    assert [len(axes.lines) for axes in figure.axes] == [4, 2]
    names = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert names == ["vanilla train", "vanilla eval", "evolving train", "evolving eval"]


def test_many_runs_look_different():
    figure = plots.training_curves({f"seed {i}": LOG for i in range(9)})
    for axes in figure.axes:
        styles = {(line.get_color(), line.get_marker()) for line in axes.lines}
        assert len(styles) == len(axes.lines)


def test_the_legend_names_every_run():
    figure = plots.training_curves({"_base": LOG, "__": LOG, "new": LOG}, ["eval_f1"])
    names = [t.get_text() for t in figure.axes[1].get_legend().get_texts()]
    assert names == ["_base eval", "__ eval", "new eval"]


def timed(seconds_of_a_step, *parts):
    """Returns the log of runs from step to step, each an hour after the other."""
    found, time = [], 1000.0
    for first, last, *stopped in parts:
        found.append({"time": time, "event": "train_begin", "step": first})
        if first == 0:  # an evaluation before the first step
            time += seconds_of_a_step
            found.append({"time": time, "event": "log", "step": 0, "eval_loss": 2.0})
        for step in range(first + 1, last + 1):
            time += seconds_of_a_step
            found.append({"time": time, "event": "log", "step": step, "loss": 1 / step})
        if not stopped:  # else: killed, without a last line
            found.append({"time": time, "event": "train_end", "step": last})
        time += 3600
    # After the training, as when somebody evaluates its model the next day.
    return [*found, {"time": time, "event": "log", "step": last, "eval_loss": 0.3}]


@pytest.mark.parametrize(
    "parts",
    [
        [(0, 6)],
        [(0, 4), (4, 6)],
        [(0, 4, "killed"), (2, 6)],  # steps 3 and 4 are lost, and repeated
        [(0, 5, "killed"), (0, 6)],  # from the beginning, in the same folder
        [(0, 3), (3, 5, "killed"), (4, 6)],
    ],
)
def test_seconds_of_a_resumed_run_are_those_of_an_uninterrupted_one(tmp_path, parts):
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, timed(2.0, *parts))))
    loss = plots.training_curves(tmp_path, over="seconds").axes[0]
    expected = [[2.0 * step + 2.0, 1 / step] for step in range(1, 7)]
    np.testing.assert_allclose(loss.lines[0].get_xydata(), expected)
    np.testing.assert_allclose(loss.lines[1].get_xydata(), [[2.0, 2.0], [14.0, 0.3]])
    assert loss.get_xlabel() == "seconds"


def test_runs_of_different_speed_are_compared_after_the_same_seconds():
    runs = {"quick": timed(0.1, (0, 8)), "slow": timed(0.3, (0, 8))}
    loss = plots.training_curves(runs, over="seconds").axes[0]
    quick, slow = (line.get_xydata() for line in loss.lines[::2])
    np.testing.assert_allclose(quick[:, 1], slow[:, 1])
    np.testing.assert_allclose(3 * quick[:, 0], slow[:, 0])
    ticks = loss.get_xticks()
    assert any(tick % 1 for tick in ticks)  # less than three seconds: not 0, 1, 2 alone
    steps = plots.training_curves(runs, over="steps").axes[0]
    assert steps.lines[0].get_xdata().tolist() == list(range(1, 9))


def test_seconds_need_times(tmp_path):
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": LOG}))
    for log in (LOG, HISTORY, tmp_path / "trainer_state.json"):
        with pytest.raises(
            errors.InputError, match=r"record 1 of log 'a' has no 'time'"
        ):
            plots.training_curves({"a": log}, over="seconds")
    with pytest.raises(errors.ConfigError, match="over='hours', expected 'steps' or"):
        plots.training_curves(LOG, over="hours")


def test_log_mistakes(tmp_path):
    with pytest.raises(errors.InputError, match=r"output_dir or log\.jsonl"):
        plots.read_log(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"step": 1}\nnot json\n{"step": 2}\n')
    with pytest.raises(errors.DataError, match=r"log\.jsonl:2: not JSON"):
        plots.read_log(tmp_path)
    with pytest.raises(errors.InputError, match="trained or evaluated"):
        plots.training_curves([{"step": 1}])


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b'{"step": 1, "loss": "\xe9"}', b"[" * 100_000, b"9" * 5_000]
)
def test_a_damaged_line_of_a_log_is_told(tmp_path, line):
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 1}\n' + line + b"\n")
    with pytest.raises(errors.DataError, match=r"log\.jsonl:2: not JSON"):
        plots.read_log(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 1}\n' + line)  # a crash
    assert plots.read_log(tmp_path) == [{"step": 1}]


@pytest.mark.parametrize("over", ["steps", "seconds"])
@pytest.mark.parametrize("step", [None, "x", [1], {}, 10**400, np.nan, np.inf])
def test_a_step_that_is_no_number_is_told(over, step):
    log = [
        {"event": "train_begin", "step": 0, "time": 1.0},
        {"step": step, "loss": 0.5, "time": 2.0},
    ]
    with pytest.raises(errors.InputError, match=r"record 2 of log 'a' is \{'step': "):
        plots.training_curves({"a": log}, over=over)
    for log in ([None], ["step"]):
        with pytest.raises(errors.InputError, match=r"record 1 of log 'a' is "):
            plots.training_curves({"a": log}, over=over)


@pytest.mark.parametrize("loss", [10**400, np.nan, np.inf])
def test_a_loss_that_cannot_be_drawn_leaves_a_gap(loss):
    log = [{"step": i, "loss": y} for i, y in enumerate((0.5, 0.3, 0.4))]
    log.append({"step": 1, "loss": loss})  # step 1 again, by a run that resumed
    (line,) = plots.training_curves(log).axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [0.5, np.nan, 0.4])
    assert plots.training_curves(log[3:]).axes[0].lines  # a run that diverged


def test_trainer_state_is_a_log_too(tmp_path):
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": LOG}))
    assert plots.read_log(tmp_path / "trainer_state.json") == LOG


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"accuracy": 0.9}', r"results\.json: has no log_history .*log\.jsonl"),
        ("[1]", "has no log_history"),
        ('{"log_history": [1]}', "has no log_history of JSON objects"),
        ('{"log_history": [{"st', r"results\.json: not JSON .*log\.jsonl"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_json_file_that_is_no_log(tmp_path, text, says):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(errors.DataError, match=says):
        plots.training_curves(tmp_path / "results.json")


@pytest.mark.parametrize("kind", [int, str, object])
def test_classes_of_nodes_may_be_of_any_kind(kind):
    classes = np.array(["10", "20", "10"], object).astype(kind)
    edges = np.array([[1, 2], [0, 0]])
    figure = plots.node_attention(edges, [np.full((2, 1), 0.5)], 0, classes=classes)
    found = [tuple(p.get_facecolor()[0]) for p in figure.axes[0].collections]
    assert found[0] == found[2] != found[1]


def lab_of(colour):
    """Returns the CIELAB coordinates of an sRGB colour "#rrggbb" under D65."""
    shares = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    low = shares <= 0.04045
    linear = np.where(low, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = to_xyz @ linear / [0.95047, 1.0, 1.08883]
    cubic = np.where(
        xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29
    )
    x, y, z = cubic
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("count", "least"), [(6, 25), (12, 17), (18, 15), (24, 12)])
def test_the_colours_of_runs_are_far_apart(count, least):
    """The distance is CIE76; the page is one of the colours."""
    found = [lab_of(one) for one in [*colours(count), "#ffffff"]]
    for one, other in itertools.combinations(found, 2):
        assert np.linalg.norm(one - other) >= least
    assert colours(count) == colours(40)[:count]


def test_many_runs_have_different_colours():
    assert len(set(colours(200))) == 200


def test_every_class_of_nodes_has_its_colour():
    count = 12
    edges = np.array([range(count), [0] * count])
    weights = np.full((count, 1), 1 / count)
    figure = plots.node_attention(edges, [weights], 0, classes=np.arange(count))
    found = {tuple(p.get_facecolor()[0]) for p in figure.axes[0].collections}
    assert len(found) == count


@pytest.mark.parametrize("head", [None, 1])
def test_the_lines_of_a_node_are_as_wide_as_its_edges_weigh(head):
    edges = np.array([[1, 2, 2, 0, 1], [0, 0, 0, 0, 2]])
    first = np.array([[0.1, 0.2], [0.2, 0.1], [0.3, 0.3], [0.4, 0.4], [1.0, 1.0]])
    figure = plots.node_attention(
        edges, [first, first[:, ::-1]], 0, classes=["a", "b", "a"], head=head
    )
    assert [axes.get_title() for axes in figure.axes] == ["layer 1", "layer 2"]
    for axes, given in zip(figure.axes, (first, first[:, ::-1]), strict=True):
        weights = given.mean(1) if head is None else given[:, head]
        widths = [line.get_linewidth() for line in axes.lines]
        expected = [weights[0], weights[1] + weights[2]]  # two edges from node 2
        np.testing.assert_allclose(widths, 7.0 * np.array(expected))
        assert [t.get_text() for t in axes.texts] == ["0", "1", "2", "0.40"]
    points = figure.axes[0].collections
    found = [tuple(p.get_facecolor()[0]) for p in points]
    assert found[0] == found[2] != found[1]  # classes a, b, a of nodes 0, 1, 2
    with pytest.raises(errors.InputError, match="no edge enters node 1"):
        plots.node_attention(edges, [first], 1)
    with pytest.raises(errors.ShapeError, match=r"\(4, 2\).*expected \(5, heads\)"):
        plots.node_attention(edges, [first[:4]], 0)
    with pytest.raises(errors.InputError, match="head=2, expected 0 to 1"):
        plots.node_attention(edges, [first], 0, head=2)


def test_pictures_of_floats_and_of_one_row_are_drawn_as_they_are():
    maps = [np.full((1, 9, 9), 1 / 9)]

    def drawn(picture):
        figure = plots.picture_attention(picture, maps, grid=(1, 8))
        return np.asarray(figure.axes[0].images[0].get_array())

    pixels = np.random.default_rng(0).uniform(0, 255, (1, 8, 3))
    np.testing.assert_allclose(drawn(pixels), pixels / 255)
    np.testing.assert_allclose(drawn(pixels / 255), pixels / 255)
    wide = drawn(pixels - 100)
    assert (wide.min(), wide.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(drawn(pixels.astype(np.uint8)), pixels.astype("u1"))
    np.testing.assert_array_equal(drawn(pixels[..., 0]), pixels[..., 0])
    np.testing.assert_array_equal(drawn(pixels[..., :1]), pixels[..., 0])


def test_a_panel_of_a_picture_shows_one_row_of_its_layer():
    rng = np.random.default_rng(0)
    maps = rng.dirichlet(np.ones(7), (2, 3, 7))  # layers, heads, class + 2 x 3 patches
    picture = np.zeros((4, 6, 1))
    figure = plots.picture_attention(picture, list(maps), grid=(2, 3), row=2)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["picture", "layer 1", "layer 2"]
    for axes, layer in zip(figure.axes[1:], maps, strict=True):
        found = layer.mean(0)[2, 1:].reshape(2, 3)
        np.testing.assert_allclose(axes.images[0].get_array(), found)
        assert axes.get_xlabel() == f"at most {found.max():.0%}"
    one = plots.picture_attention(picture, list(maps), grid=(2, 3), head=1)
    np.testing.assert_allclose(
        one.axes[2].images[0].get_array().ravel(), maps[1, 1, 0, 1:]
    )
    with pytest.raises(errors.ShapeError, match=r"\(3, 7, 7\).*3 x 3 patches"):
        plots.picture_attention(picture, list(maps), grid=(3, 3))
    with pytest.raises(errors.ShapeError, match=r"picture: shape \(4,\)"):
        plots.picture_attention(np.zeros(4), list(maps), grid=(2, 3))
    with pytest.raises(errors.InputError, match="row=7, expected 0 to 6"):
        plots.picture_attention(picture, list(maps), grid=(2, 3), row=7)
    with pytest.raises(errors.InputError, match="head=3, expected 0 to 2"):
        plots.picture_attention(picture, list(maps), grid=(2, 3), head=3)
