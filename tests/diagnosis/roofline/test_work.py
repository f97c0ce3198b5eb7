"""FLOPs and bytes of calls: by hand, and as torch counts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from diagnosis.roofline.attention import ATTENTION
from diagnosis.roofline.calls import parse_call
from diagnosis.roofline.convolutions import CONVOLUTIONS
from diagnosis.roofline.products import Work
from diagnosis.roofline.work import RULES, UNKNOWN, work_of
from ingest.readers.tables.torch_names import COMPUTING_OPERATORS

BF16, FLOAT = "c10::BFloat16", "float"


def _work(op: str, dims: list[Any], kind: str = BF16, inputs: tuple[str, ...] = ()) -> Work:
    types = [kind] * len(dims)
    text = json.dumps({"op": f"aten::{op}", "dims": dims, "types": types, "inputs": inputs})
    call = parse_call(text)
    assert call is not None
    return work_of(call)


def test_readers_keep_operators_whole_whose_work_is_known() -> None:
    assert set(RULES) == COMPUTING_OPERATORS


def test_products_of_matrices_by_hand() -> None:
    assert _work("mm", [[4096, 4096], [4096, 4096]]) == (2 * 4096**3, 3 * 4096**2 * 2)
    assert _work("addmm", [[5], [3, 4], [4, 5]], FLOAT) == (120, 4 * (5 + 12 + 20 + 15))
    assert _work("bmm", [[7, 3, 4], [7, 4, 5]]) == (840, 2 * 7 * (12 + 20 + 15))
    assert _work("baddbmm", [[7, 3, 5], [7, 3, 4], [7, 4, 5]]).flops == 840
    assert _work("linear", [[2, 3, 4], [5, 4], [5]]) == (240, 2 * (24 + 20 + 30 + 5))
    assert _work("_scaled_mm", [[16, 32], [32, 16]], "c10::Float8_e4m3fn") == (2**14, 1280)


def test_convolutions_by_hand() -> None:
    # output: (224 + 6 - 6 - 1) // 2 + 1 = 112; each of 112 x 112 x 64 from 3 x 7 x 7 inputs
    given = ("", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1")
    found = _work("miopen_convolution", [[8, 3, 224, 224], [64, 3, 7, 7]], BF16, given)
    out = 8 * 64 * 112 * 112
    assert found == (2 * out * 147, 2 * (8 * 3 * 224**2 + 64 * 147 + out))
    depthwise = ("", "", "[1, 1]", "[1, 1]", "[1, 1]", "32")
    found = _work("cudnn_convolution", [[1, 32, 8, 8], [32, 1, 3, 3]], BF16, depthwise)
    assert found.flops == 2 * 32 * 64 * 9


@pytest.mark.parametrize("padding", ["1" + 400 * "0", "-9", "true", "1.5"])
def test_a_convolution_of_a_damaged_file_has_no_work(padding: str) -> None:
    given = ("", "", f"[{padding}]", "[1]", "[1]")
    dims = [[1, 32, 8, 8], [32, 1, 3, 3]]
    assert _work("cudnn_convolution", dims, BF16, given) == UNKNOWN


@pytest.mark.parametrize(("mask", "times"), [("True, True", 2), ("False, True", 1)])
def test_a_backward_of_a_convolution_has_the_gradients_that_are_wanted(
    mask: str, times: int
) -> None:
    dims = [[8, 64, 56, 56], [8, 64, 56, 56], [64, 64, 3, 3]]
    given = ("", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
    found = _work("convolution_backward", dims, BF16, (*given, f"[{mask}, False]"))
    assert found.flops == times * 2 * 8 * 64 * 56**2 * 64 * 9


def test_attention_by_hand() -> None:
    q = [2, 128, 8, 64]  # batch, sequence, heads, width
    given = ("", "", "", "", "", "128", "128", "0.", "False")
    whole = _work("_flash_attention_forward", [q, q, q], BF16, given)
    assert whole == (4 * 2 * 8 * 128 * 128 * 64, 4 * 2 * (2 * 128 * 8 * 64))
    causal = _work("_flash_attention_forward", [q, q, q], BF16, (*given[:-1], "True"))
    assert causal.flops == 4 * 2 * 8 * 64 * 128 * 129 / 2
    windowed = (*given, "False", "0.1", "64", "0")
    assert _work("_flash_attention_forward", [q, q, q], BF16, windowed) == UNKNOWN
    packed = [q, q, q, [3], [3]]
    assert _work("_flash_attention_forward", packed, BF16, given) == UNKNOWN


def test_a_causal_backward_of_memory_efficient_attention_by_hand() -> None:
    q = [2, 128, 8, 64]
    given = ["", "", "", "", "", "", "", "", "128", "128", "", "0.", "", "", "1", "False"]
    given += ["0.1", "", "", "False"]
    found = _work("_efficient_attention_backward", [q, q, q, q, [], q], BF16, tuple(given))
    assert found.flops == 10 * 2 * 8 * 64 * 128 * 129 / 2


ARGUMENTS = {
    "causal": {"is_causal", "custom_mask_type"},
    "query": {"query"},
    "padding": {"padding"},
    "stride": {"stride"},
    "dilation": {"dilation"},
    "bias": {"bias"},
    "transposed": {"transposed"},
}
UNKNOWN_WITH = {"cum_seq_q", "cum_seq_k", "cu_seqlens_q", "cu_seqlens_k"}
UNKNOWN_WITH |= {"window_size", "window_size_left", "window_size_right"}


@pytest.mark.parametrize("op", ATTENTION | CONVOLUTIONS)
def test_arguments_stand_where_the_rules_look_for_them(op: str) -> None:
    torch = pytest.importorskip("torch")
    schemas = torch._C._jit_get_schemas_for_operator(op)
    arguments = next(one.arguments for one in schemas if not one.overload_name)
    names = [argument.name for argument in arguments]
    rule = (ATTENTION | CONVOLUTIONS)[op]
    for field, allowed in ARGUMENTS.items():
        place = getattr(rule, field, None)
        assert place is None or names[place] in allowed
    assert {names[place] for place in getattr(rule, "unless", ())} <= UNKNOWN_WITH


def test_bytes_of_what_is_bound_by_memory() -> None:
    assert _work("add", [[16, 64], [16, 64]]) == (None, 3 * 2048)
    assert _work("mul", [[16, 64], [64]]) == (None, 2 * (1024 + 64 + 1024))
    assert _work("add_", [[16, 64], [16, 64]], FLOAT) == (None, 3 * 4096)
    assert _work("fill_", [[16, 64]]) == (None, 2048)
    assert _work("sum", [[16, 64]]) == (None, 2048)
    assert _work("native_layer_norm", [[16, 64], [], [64], [64]]) == (None, 2 * (2048 + 128))


@pytest.mark.parametrize(
    ("op", "dims", "kind"),
    [
        ("mm", [[4, 8]], BF16),
        ("mm", [[4, 8], [9, 2]], BF16),
        ("mm", [[4, 8, 2], [8, 2]], BF16),
        ("bmm", [[4, 8, 2], [5, 2, 8]], BF16),
        ("cudnn_convolution", [[8, 3, 224, 224], [64, 3, 7, 7]], BF16),  # no stride
        ("index_select", [[8, 3], [5]], BF16),
        ("add", [[4, 8], [3, 8]], BF16),
        ("add", [[4, 8], [4, 8]], "of a library"),
        ("mm", [[2**40, 2**40], [2**40, 2]], BF16),
    ],
)
def test_what_is_not_known_is_not_counted(op: str, dims: list[Any], kind: str) -> None:
    assert _work(op, dims, kind) == UNKNOWN


def test_products_of_unknown_type_have_flops_and_no_bytes() -> None:
    assert _work("mm", [[4, 8], [8, 2]], "of a library") == (128, None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "7", '{"op": 7}', '{"dims": []}', "[" * 10_000, "null"]
)
def test_other_args_are_no_call(text: str) -> None:
    assert parse_call(text) is None


def _profiled(run: Callable[[], Any]) -> float:
    """FLOPs of all calls that torch's profiler shows."""
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profile:
        run()
    total = 0.0
    for found in profile.profiler.kineto_results.events():
        if found.name() in RULES and found.name() != "aten::linear":  # it holds addmm
            args = {"op": found.name(), "dims": found.shapes(), "types": list(found.dtypes())}
            args["inputs"] = ["" if v is None else str(v) for v in found.concrete_inputs()]
            call = parse_call(json.dumps(args))
            total += (0.0 if call is None else work_of(call).flops) or 0.0
    return total


def test_flops_of_a_real_step_are_those_that_torch_counts() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, dilation=2),
        torch.nn.Flatten(1),
        torch.nn.Linear(8 * 12 * 12, 10),
    )
    images = torch.randn(4, 3, 32, 32)

    def step() -> None:
        net(images).sum().backward()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    assert _profiled(step) == counter.get_total_flops()
