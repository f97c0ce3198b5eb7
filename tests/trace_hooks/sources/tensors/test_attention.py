"""Attention weights recomputed from Q and K, against an eager reference and torch's own kernels."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from trace_hooks.recording import guard
from trace_hooks.sources.tensors.attention import (
    CALLS,
    MAX_SAMPLES,
    AttentionCall,
    _of_heads,
    logits,
    summary,
    summary_rows,
    weights,
)

pytestmark = pytest.mark.torch

B, H, S, D = 2, 4, 7, 8
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 4e-3}


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def eager(query, key, mask=None, causal=False, scale=None):
    """Weights (B, H, S, T) as the documentation of scaled_dot_product_attention spells them."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    found = query.double() @ key.double().transpose(-2, -1) * scale
    if causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(diagonal=0)
        found = found.masked_fill(~seen, -torch.inf)
    if mask is not None and mask.dtype == torch.bool:
        found = found.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        found = found + mask
    return found.softmax(-1)


def padding(T: int) -> torch.Tensor:
    """(B, 1, 1, T): the second sequence is two keys shorter."""
    mask = torch.ones(B, 1, 1, T, dtype=torch.bool)
    mask[1, ..., -2:] = False
    return mask


def recorded_call(*args, **kwargs) -> tuple[AttentionCall, torch.Tensor]:
    """The call as CALLS reports it, and what torch's kernel returned."""
    calls: list[AttentionCall] = []
    CALLS.listen(calls.append)
    try:
        output = functional.scaled_dot_product_attention(*args, **kwargs)
    finally:
        CALLS.unlisten(calls.append)
    (call,) = calls
    return call, output


CASES = {
    "plain": ({}, H, S),
    "causal": ({"is_causal": True}, H, S),
    "causal, more keys": ({"is_causal": True}, H, S + 4),
    "causal, fewer keys": ({"is_causal": True}, H, S - 3),
    "cross": ({}, H, S + 3),
    "scale": ({"scale": 0.7}, H, S),
    "GQA": ({"is_causal": True, "enable_gqa": True}, 2, S),
    "MQA": ({"enable_gqa": True}, 1, S),
    "padding": ({"attn_mask": padding(S)}, H, S),
    "padding, cross": ({"attn_mask": padding(S + 3)}, H, S + 3),
    "float mask": ({"attn_mask": random(B, H, S, S, seed=9)}, H, S),
    "float mask of rows": ({"attn_mask": random(S, S, seed=9)}, H, S),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_the_kernel(case: str, dtype: torch.dtype):
    options, key_heads, keys = CASES[case]
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options = {**options, "attn_mask": mask.to(dtype)}
    query, key, value = (
        random(B, heads, rows, D, seed=seed, dtype=dtype)
        for seed, (heads, rows) in enumerate([(H, S), (key_heads, keys), (key_heads, keys)])
    )
    call, output = recorded_call(query, key, value, **options)
    reference = eager(
        query, key, options.get("attn_mask"), options.get("is_causal", False), options.get("scale")
    )
    for sample in range(B):
        own_weights = weights(call, range(H), slice(None), sample)
        assert own_weights.dtype == torch.float32
        torch.testing.assert_close(own_weights.double(), reference[sample], rtol=0, atol=1e-6)
        value_H = value[sample].float().repeat_interleave(H // key_heads, 0)
        torch.testing.assert_close(
            own_weights @ value_H, output[sample].float(), rtol=0, atol=4 * TOLERANCE[dtype]
        )


def test_chosen_heads_and_rows_are_those_of_the_whole():
    query, key = random(B, H, S, D), random(B, 2, S, D, seed=1)
    call = AttentionCall(query, key, is_causal=True)
    whole = weights(call, range(H), slice(None), 1)
    some = weights(call, [3, 1], slice(1, 6, 2), 1)
    assert some.shape == (2, 3, S)
    torch.testing.assert_close(some, whole[[3, 1], 1:6:2], rtol=0, atol=1e-7)
    assert (logits(call, [0], slice(None), 0)[0] == -torch.inf).sum() == S * (S - 1) // 2


@pytest.mark.parametrize(
    ("heads", "is_view"),
    [([0, 1, 2, 3], True), ([2], True), ([3, 1], False), ([0, 0, 1, 1], False), ([1, 1, 3], False)],
)
def test_heads_are_chosen_without_a_list_as_an_index(
    heads: list[int], is_view: bool, monkeypatch: pytest.MonkeyPatch
):
    """Such a list is copied to a GPU, and the host waits for it."""
    tensor_HND = random(4, 3, 2)
    expected = tensor_HND[heads]
    index = torch.Tensor.__getitem__

    def without_lists(tensor: torch.Tensor, at: object) -> torch.Tensor:
        assert isinstance(at, (int, slice))
        return index(tensor, at)

    monkeypatch.setattr(torch.Tensor, "__getitem__", without_lists)
    chosen = _of_heads(tensor_HND, heads)
    torch.testing.assert_close(chosen, expected, rtol=0, atol=0)
    shares = chosen.untyped_storage().data_ptr() == tensor_HND.untyped_storage().data_ptr()
    assert shares == is_view


def test_causal_at_the_lower_right():
    query, key, value = random(B, H, S, D), random(B, H, S + 2, D), random(B, H, S + 2, D)
    bias = causal_lower_right(S, S + 2)
    call, output = recorded_call(query, key, value, attn_mask=bias)
    own_weights = torch.stack([weights(call, range(H), slice(None), sample) for sample in range(B)])
    torch.testing.assert_close(own_weights @ value, output, rtol=0, atol=1e-5)


def test_rows_that_are_masked_altogether_have_no_weights():
    mask = torch.ones(S, S, dtype=torch.bool)
    mask[2] = False
    call, output = recorded_call(*(random(1, 1, S, D, seed=n) for n in range(3)), attn_mask=mask)
    own_weights = weights(call, [0], slice(None), 0)
    assert own_weights[0, 2].count_nonzero() == 0
    assert torch.allclose(own_weights.sum(-1), mask.any(-1).float())
    assert summary(call, S)[1].isfinite().all()
    torch.testing.assert_close(own_weights @ call.value_BGTD[0], output[0], rtol=0, atol=1e-5)


def test_not_a_number_is_shown_not_hidden():
    query, key = random(1, 1, S, D), random(1, 1, S, D, seed=1)
    query[0, 0, 3] = torch.nan
    own_weights = weights(AttentionCall(query, key), [0], slice(None), 0)
    assert own_weights[0, 3].isnan().all()
    assert own_weights[0, :3].isfinite().all()


@pytest.mark.parametrize("shape", [(S, D), (B, S, D), (3, B, H, S, D)], ids=str)
def test_tensors_of_other_dimensions(shape: tuple[int, ...]):
    query, key, value = (random(*shape, seed=n) for n in range(3))
    call, output = recorded_call(query, key, value, is_causal=True)
    four = call.query_BHSD.shape
    own_weights = torch.stack(
        [weights(call, range(four[1]), slice(None), b) for b in range(four[0])]
    )
    assert torch.allclose((own_weights @ call.value_BGTD).reshape(shape), output, atol=1e-5)


def test_summary_is_that_of_the_rows():
    query, key = random(B, H, S, D) * 5, random(B, H, S, D, seed=1)
    call = AttentionCall(query, key, is_causal=True)
    peak_H, entropy_H = summary(call, 1_000)
    whole = torch.stack([logits(call, range(H), slice(None), sample) for sample in range(B)])
    torch.testing.assert_close(peak_H, whole.amax((0, 2, 3)))
    share = whole.softmax(-1)
    exact = -(share * share.clamp_min(1e-30).log()).sum(-1).mean((0, 2))
    torch.testing.assert_close(entropy_H, exact)
    assert summary_rows(call, 1_000) == B * S


@pytest.mark.parametrize("max_rows", [1, 3, 8, 64])
def test_summary_keeps_to_its_rows_and_sees_the_last(max_rows: int):
    call = AttentionCall(random(9, 1, 33, D), random(9, 1, 33, D), is_causal=True)
    assert 1 <= summary_rows(call, max_rows) <= max_rows
    peak_H, entropy_H = summary(call, max_rows)
    last = logits(call, [0], slice(32, None), 0)
    assert peak_H[0] >= last.max()
    assert entropy_H.isfinite().all()
    assert summary_rows(call, 10_000) == MAX_SAMPLES * 33


def test_nothing_random_no_graph_and_no_tensor_is_changed():
    query = random(B, H, S, D).requires_grad_()
    key = random(B, H, S, D, seed=1).requires_grad_()
    before = torch.random.get_rng_state(), query.detach().clone(), key.detach().clone()
    call = AttentionCall(query, key, attn_mask=random(S, S, seed=2).requires_grad_())
    found = [weights(call, [0], slice(None), 0), *summary(call, 5)]
    assert not any(tensor.requires_grad for tensor in found)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert torch.equal(query, before[1])
    assert torch.equal(key, before[2])
    assert query._version == 0
    assert key._version == 0


def test_under_autocast_logits_are_still_made_in_float32():
    query, key = random(1, 1, S, D), random(1, 1, S, D, seed=1)
    call = AttentionCall(query, key)
    plain = logits(call, [0], slice(None), 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(logits(call, [0], slice(None), 0), plain)


def test_nothing_is_replaced_while_nobody_listens():
    original = functional.scaled_dot_product_attention
    first: list[AttentionCall] = []
    second: list[AttentionCall] = []
    CALLS.listen(first.append)
    CALLS.listen(second.append)
    assert functional.scaled_dot_product_attention is not original
    CALLS.unlisten(first.append)
    functional.scaled_dot_product_attention(*(random(1, 1, S, D) for _ in range(3)))
    CALLS.unlisten(second.append)
    assert functional.scaled_dot_product_attention is original
    assert (len(first), len(second)) == (0, 1)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_cannot_be_read_is_left_alone():
    """Nested tensors, and calls that torch itself refuses."""
    calls: list[AttentionCall] = []
    guard.account.errors.clear()
    CALLS.listen(calls.append)
    try:
        ragged = torch.nested.nested_tensor(
            [random(3, 2, D), random(5, 2, D)], layout=torch.jagged
        ).transpose(1, 2)
        functional.scaled_dot_product_attention(ragged, ragged, ragged)
        with pytest.raises(TypeError):
            functional.scaled_dot_product_attention(random(S, D))
    finally:
        CALLS.unlisten(calls.append)
    assert calls == []
    assert set(guard.account.errors) <= {"attention.read"}
    guard.account.errors.clear()


def test_compiled_code_computes_what_it_did():
    def attend(x):
        return functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = random(1, 2, S, D)
    compiled = torch.compile(attend, fullgraph=True, backend="eager")
    calls: list[AttentionCall] = []
    plain = compiled(x)
    CALLS.listen(calls.append)
    try:
        assert torch.equal(compiled(x), plain)
    finally:
        CALLS.unlisten(calls.append)
    assert torch.equal(compiled(x), plain)
    assert calls == []


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_with_a_mask():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    def causal(b, h, row, column):
        return column <= row

    query, key, value = (random(B, H, S, D, seed=n) for n in range(3))
    mask = flex.create_block_mask(causal, None, None, S, S, device="cpu")
    calls: list[AttentionCall] = []
    CALLS.listen(calls.append)
    try:
        output = flex.flex_attention(query, key, value, block_mask=mask)
    finally:
        CALLS.unlisten(calls.append)
    own_weights = torch.stack([weights(calls[0], range(H), slice(None), b) for b in range(B)])
    torch.testing.assert_close(own_weights @ value, output, rtol=0, atol=1e-5)
