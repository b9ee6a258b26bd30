"""Mistakes with tensors, gradients, functions, the optimizer and the runtime."""

from __future__ import annotations

import numpy as np

import evolving_attention as ea
from evolving_attention import _core
from evolving_attention import functional as F
from evolving_attention.optim import AdamW, clip_grad_norm_
from mistakes.row import IDS, Row, model

NUMBERS = r"expected numbers"
CUBE = np.ones((1, 2, 3, 4), np.float32)


def parameter(*values: float) -> ea.Tensor:
    return ea.Tensor(list(values) or [1.0], requires_grad=True)


def backward_twice() -> None:
    x = parameter(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    y.backward()


def set_grad(value: object) -> None:
    parameter(1.0, 2.0).grad = value


def step_with(**values: object) -> None:
    optimizer = AdamW([parameter()])
    optimizer.param_groups[0].update(values)
    optimizer.step()


def assign() -> None:
    x = ea.Tensor([1.0, 2.0])
    x[x > 1] = 0  # type: ignore[index]


ROWS = {
    "a method with an option of NumPy's": Row(
        lambda _: ea.Tensor([1.0]).sum(0, where=ea.Tensor([True])),  # type: ignore[call-overload]
        TypeError,
        r"cannot be called with \(int, where=Tensor\)",
        r"^\[Tensor\.sum\]",
        r"expected sum\(axis: .* = None, .*keepdims: bool = False",
    ),
    "a tensor of nothing": Row(
        lambda _: ea.Tensor(),  # type: ignore[call-arg]
        TypeError,
        r"cannot be called with \(\)",
        r"^\[Tensor\]",
        r"expected Tensor\(data: object, dtype: object = None, req",
    ),
    "a method of no tensor": Row(
        lambda _: ea.Tensor.relu(),  # type: ignore[call-arg]
        TypeError,
        r"cannot be called with \(\)",
        r"^\[Tensor\.relu\]",
        r"expected relu\(self: Tensor\)",
    ),
    "a function without its argument": Row(
        lambda _: ea.manual_seed(),  # type: ignore[call-arg]
        TypeError,
        r"cannot be called with \(\)",
        r"^\[manual_seed\]",
        r"expected manual_seed\(seed: int\)",
    ),
    "an assignment to elements": Row(
        lambda _: assign(),
        TypeError,
        r"elements cannot be assigned",
        r"\[tensor\]",
        r"functional\.where\(mask, value, x\), or .* by x\.copy_\(values\)",
    ),
    "the larger of two tensors": Row(
        lambda _: ea.Tensor([1.0, 2.0]).max(ea.Tensor([2.0, 1.0])),
        ea.ConfigError,
        r"got a Tensor Tensor\(\[2\., 1\.\]",
        r"\[axis\]",
        r"expected a whole number",
    ),
    "weights for another number of classes": Row(
        lambda _: F.cross_entropy(np.zeros((2, 3)), [0, 1], weight=[1.0, 2.0]),
        ea.ShapeError,
        r"shape \(2,\)",
        r"\[cross_entropy\] weight",
        r"expected \(3,\): one for each class",
    ),
    "a weight below 0": Row(
        lambda _: F.cross_entropy(np.zeros((2, 2)), [0, 1], weight=[1.0, -2.0]),
        ea.InputError,
        r"is -2",
        r"\[cross_entropy\] weight\[1\]",
        r"a finite number from 0",
    ),
    "a reduction that is not there": Row(
        lambda _: F.cross_entropy(np.zeros((2, 2)), [0, 1], reduction="avg"),
        ea.ConfigError,
        r"reduction 'avg'",
        r"cross_entropy",
        r"expected mean, sum or none",
    ),
    "a target that is neither yes nor no": Row(
        lambda _: F.binary_cross_entropy_with_logits(np.zeros(2), [0.0, 3.0]),
        ea.InputError,
        r"is 3",
        r"target 1",
        r"from 0 \(no\) to 1 \(yes\)",
    ),
    "a tensor on a GPU where there is none": Row(
        lambda f: ea.Tensor([1.0], device="cuda:99"),
        ea.BackendUnavailable,
        r"cuda:99 is not available",
        r"no CUDA kernels|no GPU|driver|this machine has",
        r'use device="cpu"',
    ),
    "a tensor on a device that is no name": Row(
        lambda f: ea.Tensor([1.0], device=0),
        ea.ConfigError,
        r"a int 0",
        r"device",
        r"expected a name such as 'cpu' or 'cuda:0'",
    ),
    "a tensor to two devices": Row(
        lambda f: ea.Tensor([1.0]).to("cpu", device="cuda"),
        ea.ConfigError,
        r"'cpu' too",
        r"to",
        r"one dtype and one device at most",
    ),
    "a tensor to nothing": Row(
        lambda f: ea.Tensor([1.0]).to(),
        ea.ConfigError,
        r"to",
        r"expected a dtype such as 'float32'",
        r"or a device such as 'cpu'",
    ),
    "tensor of text": Row(
        lambda _: ea.Tensor("x"), ea.DTypeError, r"a str 'x'", r"\[tensor\]", NUMBERS
    ),
    "tensor of nothing": Row(
        lambda _: ea.Tensor(None), ea.DTypeError, r"None", r"\[tensor\]", NUMBERS
    ),
    "tensor of ragged lists": Row(
        lambda _: ea.Tensor([[1], [1, 2]]),
        ea.ShapeError,
        r"differ in length",
        r"\[tensor\].*\[\[1\], \[1, 2\]\]",
        r"pad ",
    ),
    "an unknown type": Row(
        lambda _: ea.Tensor([1.0], dtype="float16"),
        ea.DTypeError,
        r"'float16'",
        r"\[dtype\]",
        r"expected one of float32",
    ),
    "tensor + text": Row(
        lambda _: ea.Tensor([1.0]) + "x",
        ea.DTypeError,
        r"a str 'x'",
        r"\[tensor\]",
        NUMBERS,
    ),
    "sum of two shapes": Row(
        lambda _: ea.Tensor([1.0, 2.0]) + ea.Tensor([1.0, 2.0, 3.0]),
        ea.ShapeError,
        r"\(2,\) and \(3,\)",
        r"\[add\]",
        r"cannot be broadcast",
    ),
    "sum of two types": Row(
        lambda _: ea.Tensor([1.0]) + ea.Tensor([1.0], dtype="float64"),
        ea.DTypeError,
        r"float32 and float64",
        r"\[add\]",
        r"use \.to\(dtype\)",
    ),
    "reshape to another size": Row(
        lambda _: ea.Tensor([1.0, 2.0]).reshape(3),
        ea.ShapeError,
        r"2 elements",
        r"\[reshape\]",
        r"\(3,\) has 3",
    ),
    "reshape to a word": Row(
        lambda _: ea.Tensor([1.0]).reshape(["all"]),
        ea.ConfigError,
        r"a str 'all'",
        r"reshape: shape",
        r"expected a whole number",
    ),
    "an axis that is not there": Row(
        lambda _: ea.Tensor([1.0]).sum(4),
        ea.ShapeError,
        r"axis 4",
        r"\[sum\]",
        r"1 axes",
    ),
    "an axis by name": Row(
        lambda _: ea.Tensor([1.0]).sum("rows"),
        ea.ConfigError,
        r"a str 'rows'",
        r"\[axis\]",
        r"expected a whole number",
    ),
    "item of two": Row(
        lambda _: ea.Tensor([1.0, 2.0]).item(),
        ea.ShapeError,
        r"\(2,\)",
        r"\[item\]",
        r"expected one element",
    ),
    "index by a word": Row(
        lambda _: ea.Tensor([1.0])["a"],
        ea.InputError,
        r"index",
        r"a str 'a'",
        r"expected integers, slices, ",
    ),
    "gradients of integers": Row(
        lambda _: ea.Tensor([1, 2], requires_grad=True),
        ea.DTypeError,
        r"int64 tensors have no",
        r"requires_grad",
        r"a floating type",
    ),
    "requires_grad of a result": Row(
        lambda _: setattr(parameter() * 2, "requires_grad", False),
        ea.InputError,
        r"only a leaf",
        r"requires_grad",
        r"use detach\(\)",
    ),
    "requires_grad in words": Row(
        lambda _: setattr(parameter(), "requires_grad", "yes"),
        ea.InputError,
        r"a str 'yes'",
        r"requires_grad",
        r"True or False",
    ),
    "backward twice": Row(
        lambda _: backward_twice(),
        ea.InputError,
        r"already used",
        r"\[backward\]",
        r"run the forward pass again",
    ),
    "a graph kept for a second backward": Row(
        lambda _: (parameter() * 2).backward(retain_graph=True),
        ea.InputError,
        r"retain_graph=True is not supported",
        r"\[backward\]",
        r"add the losses and call backward once",
    ),
    "gradients of gradients": Row(
        lambda _: (parameter() * 2).backward(create_graph=True),
        ea.InputError,
        r"create_graph=True is not supported",
        r"\[backward\]",
        r"leave it out",
    ),
    "backward without a graph": Row(
        lambda _: ea.Tensor([1.0]).backward(),
        ea.InputError,
        r"does not require",
        r"\[backward\]",
        r"requires_grad=True",
    ),
    "backward of many": Row(
        lambda _: (parameter(1.0, 2.0) * 2).backward(),
        ea.ShapeError,
        r"\(2,\)",
        r"\[backward\]",
        r"a gradient is needed",
    ),
    "backward with another shape": Row(
        lambda _: (parameter(1.0, 2.0) * 2).backward([1.0]),
        ea.ShapeError,
        r"float32 \(1,\)",
        r"gradient",
        r"the tensor float32 \(2,\)",
    ),
    "grad of another shape": Row(
        lambda _: set_grad([1.0, 2.0, 3.0]),
        ea.ShapeError,
        r"\(3,\)",
        r"\[grad\]",
        r"the tensor float32 \(2,\)",
    ),
    "from_dlpack of a list": Row(
        lambda _: ea.from_dlpack([1.0]),
        ea.InputError,
        r"__dlpack__",
        r"\[from_dlpack\]",
        r"expected an object with",
    ),
    # --- functions
    "relu of text": Row(
        lambda _: F.relu("x"), ea.DTypeError, r"a str 'x'", r"\[relu\]", NUMBERS
    ),
    "relu of nothing": Row(
        lambda _: F.relu(), ea.InputError, r"with \(\)", r"\[relu\]", r"x: Tensor\)"
    ),
    "relu of an integer": Row(
        lambda _: F.relu(3),
        ea.DTypeError,
        r"int64",
        r"\[relu\]",
        r"float32, bfloat16 or float64",
    ),
    "dropout in words": Row(
        lambda _: F.dropout([1.0], "half"),
        ea.InputError,
        r"\(list, str\)",
        r"\[dropout\]",
        r"expected dropout\(.*float",
    ),
    "dropout of 1.5": Row(
        lambda _: F.dropout([1.0], 1.5),
        ea.ConfigError,
        r"1\.5 is outside",
        r"\[dropout\]",
        r"\[0, 1\)",
    ),
    "a weight that does not fit": Row(
        lambda _: F.linear(np.ones((2, 3), "f"), np.ones((4, 5), "f")),
        ea.ShapeError,
        r"\(4, 5\)",
        r"\[linear\] weight",
        r"expected \(out, in\)",
    ),
    "an id beyond the table": Row(
        lambda _: F.embedding(np.ones((3, 2), "f"), [5]),
        ea.InputError,
        r"5 is outside",
        r"\[embedding\] ids\[0\]",
        r"expected 0 to 2",
    ),
    "no packing": Row(
        lambda _: F.attention_scores([[1.0]], [[1.0]], None, 1.0),
        ea.InputError,
        r"NoneType",
        r"attention_scores",
        r"packing: Packing",
    ),
    "offsets of a packing that fall": Row(
        lambda _: F.Packing(2, [0, 3, 2]),
        ea.ShapeError,
        r"= 2 is below",
        r"\[packing\] offsets",
        r"\[2\]",
    ),
    "attention of unequal shapes": Row(
        lambda _: F.evolving_attention(CUBE, CUBE, np.ones((1, 2, 3, 5))),
        ea.ShapeError,
        r"\(1, 2, 3, 5\)",
        r"evolving_attention: q",
        r"\[batch, heads, k",
    ),
    "an additive mask for attention": Row(
        lambda _: F.evolving_attention(CUBE, CUBE, CUBE, mask=[[0.0, 0.0, -1e4]]),
        ea.InputError,
        r"-10000",
        r"mask\[0, 2\]",
        r"expected 1 for a key",
    ),
    "a mask of another length": Row(
        lambda _: F.evolving_attention(CUBE, CUBE, CUBE, mask=np.ones((1, 9))),
        ea.ShapeError,
        r"\(1, 9\)",
        r"mask",
        r"expected \(1, 3\)",
    ),
    "beta without a weight": Row(
        lambda _: F.evolving_attention(
            CUBE, CUBE, CUBE, prev=np.ones((1, 2, 3, 3), "f"), alpha=0.5, beta=0.5
        ),
        ea.InputError,
        r"weight is missing",
        r"beta=0\.5",
        r"pass it, or set beta=0",
    ),
    "alpha of 5": Row(
        lambda _: F.evolving_attention(CUBE, CUBE, CUBE, alpha=5),
        ea.ConfigError,
        r"=5",
        r"alpha",
        r"in \[0, 1\]",
    ),
    # --- optimizer
    "AdamW of arrays": Row(
        lambda _: AdamW([np.ones(3)]),
        ea.InputError,
        r"a ndarray",
        r"parameter 0",
        r"requires_grad=True",
    ),
    "AdamW of named parameters": Row(
        lambda _: AdamW(model().named_parameters()),
        ea.InputError,
        r"a tuple",
        r"parameter 0",
        r"without the names",
    ),
    "AdamW of a model": Row(
        lambda _: AdamW(model()),
        ea.ConfigError,
        r"a BertForSeq",
        r"AdamW: params",
        r"model\.parameters\(\)",
    ),
    "AdamW of nothing": Row(
        lambda _: AdamW([]),
        ea.ConfigError,
        r"empty",
        r"AdamW: params",
        r"pass model\.parameters",
    ),
    "AdamW of constants": Row(
        lambda _: AdamW([ea.Tensor([1.0])]),
        ea.ConfigError,
        r"all 1 parameters are frozen",
        r"AdamW",
        r"expected at least one that requires a gradient; set requires_grad = True",
    ),
    "AdamW of a result": Row(
        lambda _: AdamW([parameter() * 2]),
        ea.InputError,
        r"is not a leaf",
        r"AdamW: parameter 0",
        r"requires a gradient; pass the tensor it was made of",
    ),
    "AdamW of one tensor twice": Row(
        lambda _: AdamW([p := parameter(), p]),
        ea.ConfigError,
        r"parameter 0 once more",
        r"parameter 1",
        r"expected each once",
    ),
    "a group without parameters": Row(
        lambda _: AdamW([{"parms": [parameter()]}]),
        ea.ConfigError,
        r"\['parms'\]",
        r"group 0",
        r"expected 'params'",
    ),
    "negative rate": Row(
        lambda _: AdamW([parameter()], lr=-1),
        ea.ConfigError,
        r"-1",
        r"AdamW: lr",
        r"expected >= 0",
    ),
    "one beta": Row(
        lambda _: AdamW([parameter()], betas=0.9),
        ea.ConfigError,
        r"0\.9",
        r"AdamW: betas",
        r"two values in \[0, 1\)",
    ),
    "a rate in words, later": Row(
        lambda _: step_with(lr="small"),
        ea.ConfigError,
        r"'small'",
        r"param_groups\[0\]\['lr'\]",
        r"expected >= 0",
    ),
    "another optimizer's state": Row(
        lambda _: AdamW([parameter()]).load_state_dict({}),
        ea.CheckpointError,
        r"does not fit",
        r"'exp_avg\.0'",
        r"build the model",
    ),
    "a norm of -1": Row(
        lambda _: clip_grad_norm_([parameter()], -1),
        ea.ConfigError,
        r"-1",
        r"max_norm",
        r"expected a number > 0",
    ),
    # --- runtime
    "no threads": Row(
        lambda _: ea.set_num_threads(0),
        ea.ConfigError,
        r"got 0",
        r"set_num_threads",
        r"expected 1 to 1024",
    ),
    "threads in words": Row(
        lambda _: ea.set_num_threads("all"),
        ea.ConfigError,
        r"a str 'all'",
        r"set_num_threads: count",
        r"a whole number",
    ),
    "half a seed": Row(
        lambda _: ea.manual_seed(0.5),
        ea.ConfigError,
        r"a float 0\.5",
        r"manual_seed: seed",
        r"a whole number",
    ),
    "a state of nothing": Row(
        lambda _: ea.set_rng_state(3),
        ea.ConfigError,
        r"got an? int 3",
        r"set_rng_state",
        r"pair \(seed, offset\)",
    ),
    "a memory limit in words": Row(
        lambda _: ea.set_memory_limit("1G"),
        ea.ConfigError,
        r"a str '1G'",
        r"set_memory_limit: bytes",
        r"a whole number",
    ),
    "an unknown kernel": Row(
        lambda _: _core.force_kernel("gem", "ref"),
        ea.KernelNotFound,
        r"no kernel 'gem'",
        r"force_kernel",
        r"implementation 'ref'",
    ),
    "an unknown implementation": Row(
        lambda _: _core.force_kernel("softmax_forward", "opencl"),
        ea.KernelNotFound,
        r"no implementation 'opencl'",
        r"softmax",
        r"this build: .*ref",
    ),
    "a result that does not exist": Row(
        lambda _: model()(IDS).logit,
        AttributeError,
        r"logit",
        r"ModelOutput",
        r"no attr",
    ),
}
