"""Converts benchmark records to rows: ours, the other side, and their ratio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One comparison.

    ``ratio`` is how many times faster (or smaller) ours is; None if there is no other
    side. ``share`` is the share of the GEMM limit that ours reaches. ``headline`` rows
    are in the figure; all rows are in docs/benchmarks.md. ``peer`` names the other side
    in the figure; it is empty if the other side is ours too.
    """

    what: str
    ours: str
    other: str
    ratio: float | None
    share: float | None = None
    headline: bool = True
    peer: str = "PyTorch eager"

    def markdown(self) -> str:
        """Returns the row of a Markdown table."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}×"
        share = "" if self.share is None else f"{self.share:.0%}"
        return f"| {self.what} | {self.ours} | {self.other} | {ratio} | {share} |"


def _ms(one: Record, digits: int = 0) -> str:
    """Formats the median, followed by the minimum."""
    text = f"{one['median_s'] * 1e3:.{digits}f} ms"
    return text + (f", min {one['min_s'] * 1e3:.{digits}f}" if "min_s" in one else "")


def _number(rate: float) -> str:
    """Formats small numbers with three digits, others without decimals."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def _rate(one: Record, unit: str, key: str = "sentences_per_s") -> str:
    """Formats units per second of the median, followed by the fastest round."""
    rate = one[key]
    if "min_s" not in one:
        return f"{_number(rate)} {unit}"
    best = rate * one["median_s"] / one["min_s"]
    return f"{_number(rate)} {unit}, best {_number(best)}"


def _tokens(one: Record) -> str:
    """Formats tokens per second of the median, followed by the fastest round."""
    rate = one["tokens_per_s"]
    return f"{rate:.0f} tokens/s, best {rate * one['median_s'] / one['min_s']:.0f}"


def _share(result: Record) -> float | None:
    limit = result.get("work", {}).get("gemm_limit_s")
    return limit / result["ours"]["median_s"] if limit else None


def _shape(settings: Record) -> str:
    text = (
        f"{settings['dtype']}, batch {settings['batch']}, length {settings['length']}"
    )
    return text + _held(settings)


def _held(settings: Record) -> str:
    return f", {settings['isa'].upper()} only" if settings.get("isa") else ""


def training(record: Record) -> list[Row]:
    """Returns rows of the training step against PyTorch, eager and compiled."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        what = f"{kind} BERT-{settings['size']} training step, {_shape(settings)}"
        if "median_s" in result.get("ours", {}):
            rows += _against_all(what, result, _ms, _share(result))
    return rows


COMPARED = ("vanilla", "evolving")
EAGER = "torch"  # the side that the column heading names
TRAINERS = {
    "transformers": "transformers' Trainer, vanilla, dynamic padding",
    "transformers grouped": "transformers' Trainer, vanilla, grouped by length",
}


def cola(record: Record) -> list[Row]:
    """Returns rows of fine-tuning on CoLA against transformers' Trainer."""
    return _trainers(record, "CoLA", lambda one: _rate(one, "sentences/s"))


def squad(record: Record) -> list[Row]:
    """Returns rows of fine-tuning on SQuAD's windows against transformers' Trainer."""
    return _trainers(
        record, "SQuAD", lambda one: _rate(one, "windows/s", "windows_per_s")
    )


def _trainers(record: Record, data: str, told: Callable[[Record], str]) -> list[Row]:
    """Returns rows of our Trainer against transformers', its faster way first."""
    settings, rows = record.get("settings", {}), []
    dtype = settings.get("dtype", "float32")
    dtype += ", on a GPU" if settings.get("device") == "cuda" else ""
    results = record["results"]
    for kind in ("vanilla", "evolving"):
        sides = {name: results[s] for s, name in TRAINERS.items() if s in results}
        sides["ours"] = results.get(f"ours {kind}", {})
        what = f"{kind} MiniLM fine-tuned on {data}, {dtype}"
        rows += _against_all(what, sides, told, None)
    return rows


def _against_all(
    what: str, result: Record, told: Callable[[Record], str], share: float | None
) -> list[Row]:
    """Returns ours against every other side; the fastest of them is the headline."""
    others = {
        side: one
        for side, one in result.items()
        if side != "ours" and isinstance(one, dict) and "median_s" in one
    }
    if "median_s" not in result.get("ours", {}):
        return []
    ours = result["ours"]
    rows = []
    for side, one in sorted(others.items(), key=lambda item: item[1]["median_s"]):
        ratio = one["median_s"] / ours["median_s"]
        other = told(one) + ("" if side == EAGER else f" ({side})")
        peer = "PyTorch eager" if side == EAGER else side.split(",")[0]
        rows.append(Row(what, told(ours), other, ratio, share, not rows, peer=peer))
    for side, one in result.items():
        if isinstance(one, dict) and "skipped" in one:
            told_why = str(one["skipped"]).splitlines() or ["it failed"]
            reason = told_why[0][:120]
            other = f"{side}: {reason}"
            rows.append(Row(what, told(ours), other, None, share, headline=False))
    return rows


def inference(record: Record) -> list[Row]:
    """Returns rows of inference against the engines, on one batch without padding."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        what = f"{kind} BERT-{settings['size']} inference, {_shape(settings)}"
        if "median_s" in result.get("ours", {}):
            rows += _against_all(what, result, _ms, _share(result))
    ours = [record["results"].get(k, {}).get("ours", {}) for k in COMPARED]
    if settings.get("interleaved") and all("median_s" in one for one in ours):
        ratio = ours[1]["median_s"] / ours[0]["median_s"]
        least = ours[1]["min_s"] / ours[0]["min_s"]
        what = f"evolving over vanilla, BERT-{settings['size']} inference, "
        told = f"{ratio:.2f}, by minima {least:.2f}"
        rows.append(Row(what + _shape(settings), told, "", None, headline=False))
    return rows


def lengths(record: Record) -> list[Row]:
    """Returns rows of inference on real lengths."""
    settings, rows = record["settings"], []
    names = {"cola": "CoLA's", "mrpc": "MRPC's"}
    for kind, orders in record["results"].items():
        for order, result in orders.items():
            what = (
                f"{kind} BERT-{settings['size']} inference on "
                f"{names[settings['task']]} lengths, {order} rows "
                f"({result['work']['padding']:.0%} padding for the others), "
                f"{settings['dtype']}"
            )
            rows += _against_all(
                what,
                result,
                lambda one: _rate(one, "/s"),
                _share(result) if "median_s" in result.get("ours", {}) else None,
            )
    return rows


def memory(record: Record) -> list[Row]:
    """Returns rows of a training process's peak memory."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        if "ratio" in result:
            sizes = [result[s]["peak_bytes"] / 2**30 for s in ("ours", "torch")]
            what = f"{kind} BERT-{settings['size']} training, peak memory, "
            both = (f"{size:.2f} GiB" for size in sizes)
            rows.append(Row(what + _shape(settings), *both, sizes[1] / sizes[0]))
    return rows


def corpus(record: Record) -> list[Row]:
    """Returns the cost of a large corpus over a small one, with the same model."""
    large, small = (record["results"][name] for name in ("large", "small"))
    what = f"pre-training on {large['bytes'] / 1e9:.1f} GB of text"
    memory = (f"{one['peak_bytes'] / 1e6:.0f} MB" for one in (large, small))
    first = (f"{one['first_step_s']:.1f} s" for one in (large, small))
    before = (f"{_number(one['preparation_s'])} s" for one in (large, small))
    return [
        Row(
            f"{what}{told}",
            ours,
            f"{other} (on {small['bytes'] / 1e6:.0f} MB)",
            None,
            headline=False,
            peer="",
        )
        for told, (ours, other) in (
            (", peak memory", memory),
            (", to the first step", first),
            (", preparation, once", before),
        )
    ]


def imports(record: Record) -> list[Row]:
    """Returns the import of the BERT class against transformers'."""
    ours = record["results"].get("ours, BERT class", {})
    theirs = record["results"].get("transformers, BERT class", {})
    if "median_s" not in ours or "median_s" not in theirs:
        return []
    both = (f"{_ms(x)}, {x['peak_bytes'] / 2**20:.0f} MiB" for x in (ours, theirs))
    ratio = theirs["median_s"] / ours["median_s"]
    return [Row("import of the BERT classifier", *both, ratio, peer="transformers")]


def demo(record: Record) -> list[Row]:
    """Returns the demo from start to end, in its own process."""
    one = record["results"]["demo"]
    told = f"{one['median_s']:.1f} s, min {one['min_s']:.1f}, "
    told += f"{one['peak_bytes'] / 2**20:.0f} MiB"
    return [Row("evolving-attention demo", told, "", None, headline=False)]


def same_bits(record: Record) -> list[Row]:
    """Returns the price of equal bits in the training step."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        what = (
            f"{kind} BERT-{settings['size']} training step, {_shape(settings)}; same "
            f"bits for any threads cost {result['price']:+.1%}"
        )
        other = f"{_ms(result['onednn_parallel'])} (oneDNN splits the work)"
        ratio = 1 / (1 + result["price"])
        rows.append(Row(what, _ms(result["same bits"]), other, ratio, peer=""))
    return rows


def growth(record: Record) -> list[Row]:
    """Returns evolving over vanilla attention along length and batch, ours only."""
    settings, rows = record["settings"], []
    for axis, points in record["results"].items():
        told = ", ".join(f"{one[axis]}: {one['ratio']:.2f}" for one in points)
        other = "batch" if axis == "length" else "length"
        what = (
            f"evolving over vanilla, BERT-{settings['size']} training step, "
            f"{settings['dtype']}, {other} {points[0][other]}, by {axis}"
        )
        rows.append(Row(what, told, "", None, headline=False))
    return rows


def _pair(what: str, found: Record, digits: int = 0) -> Row:
    """Returns a row of ours and PyTorch, shown on the page but not in the figure."""
    ours, theirs = found["ours"], found["torch"]
    both = (_ms(one, digits) for one in (ours, theirs))
    ratio = theirs["median_s"] / ours["median_s"]
    return Row(what, *both, ratio, headline=False, peer="")


def conv1d(record: Record) -> list[Row]:
    """Returns the convolution along sequences, forward and backward, by shape."""
    rows = []
    for shape, result in record["results"].items():
        for part in ("forward", "backward"):
            what = f"conv1d {part}, {shape}, {record['settings']['dtype']}"
            rows.append(_pair(what, result[part], digits=2))
    return rows


def csan(record: Record) -> list[Row]:
    """Returns windowed attention against dense attention, both ours."""
    rows = []
    for part, found in record["results"].items():
        dense = found["dense"]
        for window in (name for name in found if name != "dense"):
            what = f"{part}, window {window}, {_shape(record['settings'])}"
            both = (_ms(one, 1) for one in (found[window], dense))
            ratio = dense["median_s"] / found[window]["median_s"]
            rows.append(Row(what, *both, ratio, headline=False, peer=""))
    return rows


def series(record: Record) -> list[Row]:
    """Returns EA-DC-Transformer's settings: an epoch of training and of inference."""
    rows = []
    for kind, result in record["results"].items():
        for part, found in result.items():
            rows.append(_pair(f"time series, {kind}, an epoch of {part}", found))
    return rows


def translation(record: Record) -> list[Row]:
    """Returns rows of training an encoder-decoder against PyTorch."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        what = f"{kind} Transformer-{settings['size']} training on Multi30k's pairs, "
        what += f"{settings['dtype']}, batches of {settings['tokens']} tokens"
        what += _held(settings)
        rows += _against_all(
            what, {k: result[k] for k in ("ours", "torch")}, _tokens, None
        )
    return rows


def pretraining(record: Record) -> list[Row]:
    """Returns masked language models against transformers', which is vanilla."""
    settings, results = record["settings"], record["results"]
    what = f"BERT-{settings['size']} pre-training, {settings['dtype']}, batch "
    what += f"{settings['batch']}, length {settings['length']}"
    theirs = results.get("vanilla", {}).get("torch")
    rows = []
    for kind, result in results.items():
        sides = {"ours": result["ours"]}
        if theirs is not None:
            sides["transformers"] = theirs
        rows += _against_all(f"{kind} {what}", sides, _tokens, None)
    return rows


def t5(record: Record) -> list[Row]:
    """Returns rows of fine-tuning a T5 against transformers'."""
    settings, result = record["settings"], record["results"].get("vanilla", {})
    what = f"T5-Small-sized training on Multi30k's pairs, {settings['dtype']}, "
    what += f"batches of {settings['tokens']} tokens{_held(settings)}"
    sides = {name: result[side] for name, side in _OF_T5.items() if side in result}
    rows = _against_all(what, sides, _tokens, None)
    own = record["results"].get("evolving", {}).get("ours")
    if own is not None and "ours" in sides:
        ratio = sides["ours"]["median_s"] / own["median_s"]
        both = (_tokens(own), f"{_tokens(sides['ours'])} (ours, vanilla)")
        rows.append(Row(f"evolving {what}", *both, ratio, headline=False, peer=""))
    return rows


def text_nets(record: Record) -> list[Row]:
    """Returns text nets from scratch against PyTorch, which pads."""
    settings, rows = record["settings"], []
    data = {"sst2": "SST-2's sentences", "snli": "SNLI's pairs"}[settings["task"]]
    for arm, result in record["results"].items():
        what = f"{arm} trained on {data}, {settings['words']} word vectors, "
        what += f"{settings['dtype']}, batches of {settings['batch']}"
        rows += _against_all(what, result, lambda one: _rate(one, "/s"), None)
    return rows


def graph(record: Record) -> list[Row]:
    """Returns an epoch of GAT against PyTorch Geometric, and EA-GAT against GAT."""
    rows = []
    for name, found in record["results"].items():
        where = "Cora" if name == "cora" else "a generated graph"
        sides = {side: found[side] for side in ("ours", "torch_geometric")}
        rows += _against_all(f"GAT, an epoch on {where}", sides, _ms, None)
        ours, plain = found["ea_gat3"], found["gat3"]
        ratio = plain["median_s"] / ours["median_s"]
        both = (_ms(ours, 1), f"{_ms(plain, 1)} (ours, vanilla)")
        what = f"three-layer EA-GAT, an epoch on {where}"
        rows.append(Row(what, *both, ratio, headline=False, peer=""))
    return rows


_NETWORKS = {"resnet50": "ResNet-50", "aa_resnet50": "AA-ResNet-50"}
_NETWORKS["vit_b16"] = "ViT-B/16"


def images(record: Record) -> list[Row]:
    """Returns rows of image networks: steps, memory, inference and input."""
    settings, rows = record["settings"], []
    network = _NETWORKS[settings["model"]]
    shape = f"{settings['dtype']}, batch {settings['batch']}"
    if settings["measure"] == "input":
        for kind, result in record["results"].items():
            rows += _of_input(f"{kind} {network}, {shape}", result)
        return rows
    task = {"training": "training step"}.get(settings["measure"], settings["measure"])
    for kind, result in record["results"].items():
        what = f"{kind} {network} {task}, {shape}"
        if "median_s" not in result.get("ours", {}):
            continue
        sides = {k: v for k, v in result.items() if k in ("ours", "torch", "openvino")}
        rows += _against_all(what, sides, _ms, _share(result))
        if "memory_ratio" in result and task != "inference":
            sizes = [result[s]["peak_bytes"] / 2**30 for s in ("ours", "torch")]
            both = (f"{size:.2f} GiB" for size in sizes)
            rows.append(Row(f"{what}: peak memory", *both, 1 / result["memory_ratio"]))
        if "over_vanilla" in result:
            both = _ms(result["ours"]), _ms(record["results"]["vanilla"]["ours"])
            both = both[0], f"{both[1]} (ours, vanilla)"
            ratio = 1 / result["over_vanilla"]
            rows.append(Row(what, *both, ratio, headline=False, peer=""))
    return rows


def _of_input(what: str, result: Record) -> list[Row]:
    """Returns rows of picture files: decoding rate, and their cost in training."""

    def told(side: str) -> str:
        return f"{_number(result['images'] / result[side]['median_s'])} images/s"

    step = f"{told('arrays')} (training)"
    return [
        Row(
            f"{what}: decoding and augmenting JPEG files",
            told("input"),
            step,
            result["input_over_step"],
            headline=False,
            peer="",
        ),
        Row(
            f"{what}: training on files",
            told("files"),
            f"{told('arrays')} (on arrays)",
            1 / result["files_over_arrays"],
            headline=False,
            peer="",
        ),
    ]


_OF_T5 = {"ours": "ours", "transformers": "torch"}


def generation(record: Record) -> list[Row]:
    """Returns greedy and beam search against the other generators."""
    settings, rows = record["settings"], []
    for name, result in record["results"].items():
        what = f"Transformer-{settings['size']}, {settings['new_tokens']} new tokens, "
        what += f"{settings['dtype']}, {name}"
        if "ratio" in result:
            both = (
                _ms(result["token_64"], 1),
                f"{_ms(result['token_8'], 1)} (the 8th token)",
            )
            what = f"{what}: the 64th token"
            ratio = 1 / result["ratio"]
            rows.append(Row(what, *both, ratio, headline=False, peer=""))
            continue
        sides = {k: v for k, v in result.items() if "median_s" in v}
        own = sides.pop("ours, evolving", None)
        if "ours" in sides:
            rows += _against_all(what, sides, _tokens, _share(result))
            if own is not None:
                ratio = sides["ours"]["median_s"] / own["median_s"]
                both = (_tokens(own), f"{_tokens(sides['ours'])} (ours, vanilla)")
                rows.append(
                    Row(f"evolving {what}", *both, ratio, headline=False, peer="")
                )
    return rows


def gpu(record: Record) -> list[Row]:
    """Returns the training step on a GPU against PyTorch: time and memory."""
    settings, rows = record["settings"], []
    for kind, result in record["results"].items():
        what = f"{kind} BERT-{settings['size']} training step on a GPU, "
        what += _shape(settings)
        sides = {k: v for k, v in result.items() if "median_s" in v}
        if "ours" in sides:
            rows += _against_all(what, sides, _ms, _share(result))
            own = sides.pop("ours")["peak_bytes"]
            peers = sorted(sides.items(), key=lambda item: item[1]["peak_bytes"])
            for place, (side, one) in enumerate(peers):
                told = [f"{n / 2**30:.2f} GiB" for n in (own, one["peak_bytes"])]
                what_of = (f"{what}: memory", *told, one["peak_bytes"] / own)
                rows.append(Row(*what_of, headline=place == 0, peer=side))
    return rows


def repeat(record: Record) -> list[Row]:
    """Returns several seeds of one command against as many single commands."""
    one, settings = record["results"]["seeds"], record["settings"]
    what = f"{settings['seeds']} seeds of {settings['steps']} steps of MiniLM in one"
    what += " command against single ones" + ", the same bits" * one["same_bits"]
    ours, other = (_ms(one[side]) for side in ("together", "alone"))
    return [Row(what, ours, other, 1 / one["ratio"], headline=False, peer="")]


def versions(record: Record) -> list[Row]:
    """Returns this package against its earlier state, with the ratio's interval."""
    rows = []
    for name, one in record["results"].items():
        task = name
        low, high = 1 / one["high"], 1 / one["low"]
        if name.startswith(("training", "inference")):
            plain = "vanilla" in name or "maps" in name
            task = f"{'' if plain else 'EA-'}BERT-Base 8 × 128, {name}"
        what = f"{task} (95 % interval {low:.2f} to {high:.2f})"
        both = (_ms(one["now"]), f"{_ms(one['before'])} (before)")
        rows.append(Row(what, *both, 1 / one["ratio"], headline=False, peer=""))
    return rows


# Heading and rows of a record, by the first word of its name.
TITLES = {
    "training": "Training step",
    "inference": "Inference",
    "lengths": "Inference on real lengths",
    "cola": "Fine-tuning on CoLA",
    "squad": "Fine-tuning on SQuAD",
    "corpus": "A large corpus",
    "memory": "Peak memory of training",
    "import": "Import",
    "demo": "The demo",
    "repeat": "Several seeds in one command",
    "samebits": "Cost of the same bits for any number of threads",
    "growth": "Growth with length and batch",
    "conv1d": "Convolution along sequences",
    "csan": "Windowed attention against dense attention, both ours",
    "series": "Time series",
    "translation": "Training an encoder-decoder",
    "generation": "Generation",
    "pretraining": "Pre-training",
    "t5": "Fine-tuning a T5",
    "textnets": "Text nets from scratch",
    "graph": "Graph attention",
    "images": "Image networks",
    "gpu": "Training step on a GPU",
    "versions": "This package against an earlier commit",
}
ROWS: dict[str, Callable[[Record], list[Row]]] = {
    "training": training,
    "inference": inference,
    "lengths": lengths,
    "cola": cola,
    "squad": squad,
    "corpus": corpus,
    "memory": memory,
    "import": imports,
    "demo": demo,
    "repeat": repeat,
    "samebits": same_bits,
    "growth": growth,
    "conv1d": conv1d,
    "csan": csan,
    "series": series,
    "translation": translation,
    "generation": generation,
    "pretraining": pretraining,
    "t5": t5,
    "textnets": text_nets,
    "graph": graph,
    "images": images,
    "gpu": gpu,
    "versions": versions,
}


def rows_of(name: str, record: Record) -> list[Row]:
    """Returns the rows of a record; none for an unknown benchmark."""
    make = ROWS.get(name.split("-")[0])
    return make(record) if make else []


def title_of(name: str, record: Record) -> str:
    """Returns the heading of the record's rows."""
    isa = record.get("settings", {}).get("isa")
    title = TITLES.get(name.split("-")[0], name)
    return f"{title}, every library limited to {isa.upper()}" if isa else title
