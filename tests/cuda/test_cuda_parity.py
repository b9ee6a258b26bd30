"""Models on the GPU against PyTorch's and transformers' on the same GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_gpu import array, why_no_gpu

import evolving_attention as ea

if why_no_gpu():
    pytest.skip(why_no_gpu(), allow_module_level=True)
torch = pytest.importorskip("torch", reason="needs torch (extra: parity)")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.gpu_sides import torch_peer  # noqa: E402
from benchmarks.models import Shape, batch_of, our_model, weights  # noqa: E402

pytestmark = pytest.mark.parity
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)
SHAPE = {"layers": 3, "width": 192, "heads": 6, "inner": 517, "vocabulary": 1003}


@pytest.fixture(autouse=True)
def exact_products() -> None:
    """No TF32 on PyTorch's side."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-4), ("bfloat16", 0.05)])
@pytest.mark.parametrize("alpha", [None, 0.3], ids=["vanilla", "evolving"])
@pytest.mark.parametrize("length", [33, 128, 512])
def test_a_step_is_that_of_torch(length: int, alpha: float, dtype: str, bound: float):
    """Loss and all gradients of one batch, without dropout."""
    shape = Shape(**SHAPE, dropout=0.0, alpha=alpha, beta=0.2)
    ids, labels = batch_of(shape, 3, length)
    base = our_model(shape, "float32")
    state = weights(base)
    model = our_model(shape, dtype)
    for name, parameter in model.named_parameters():
        parameter.copy_(state[name])
    model.to("cuda")
    loss = model.train()(input_ids=ids, labels=labels).loss
    loss.backward()
    peer = torch_peer(state, shape)
    x, y = (torch.from_numpy(a).to("cuda") for a in (ids, labels))
    expected = peer.train()(x, y)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=bound)
    want = {name: p.grad for name, p in peer.named_parameters()}
    differences, sizes = [], []
    for name, parameter in model.named_parameters():
        found = array(parameter.grad).astype(np.float64).ravel()
        exact = want[name].double().cpu().numpy().ravel()
        differences.append(found - exact)
        sizes.append(exact)
    apart = np.linalg.norm(np.concatenate(differences))
    assert apart <= 2 * bound * np.linalg.norm(np.concatenate(sizes))


def test_logits_are_those_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    config = transformers.BertConfig(
        vocab_size=211,
        hidden_size=96,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=131,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs: Any = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    theirs.to("cuda")
    ours = ea.BertForSequenceClassification.from_pretrained(tmp_path, device="cuda")
    rng = np.random.default_rng(0)
    mask = (np.arange(23) < np.array([23, 5, 1, 14])[:, None]).astype(np.int64)
    ids = rng.integers(1, 211, mask.shape) * mask
    with torch.no_grad():
        x, m = (torch.from_numpy(a).to("cuda") for a in (ids, mask))
        want = theirs(input_ids=x, attention_mask=m).logits.float().cpu().numpy()
    with ea.no_grad():
        got = array(ours.eval()(input_ids=ids, attention_mask=mask).logits)
    np.testing.assert_allclose(got, want, atol=1e-5 * max(1.0, np.abs(want).max()))
