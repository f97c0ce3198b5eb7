"""Names that PyTorch and NCCL give, and what they mean here."""

from __future__ import annotations

import pytest

from ingest.readers.tables.torch_names import (
    COMM_KERNEL,
    CommArgs,
    kind_of_annotation,
    op_name,
    op_of_name,
)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("_allgather_base", "all_gather"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("wait", ""),
    ],
)
def test_operations_have_the_name_of_the_schema(text: str, op: str) -> None:
    assert op_name(text) == op


def test_a_kernel_names_its_operation() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    assert COMM_KERNEL.match(name)
    assert op_of_name(name) == "all_reduce"
    assert not COMM_KERNEL.match("gemm")


def test_annotations_have_a_kind() -> None:
    assert kind_of_annotation("Optimizer.step#AdamW.step") == "optimizer"
    assert kind_of_annotation("my own range") == "host"


@pytest.mark.parametrize(
    ("args", "dtype", "num_bytes"),
    [
        (CommArgs(op="all_reduce", in_elements=8, dtype_name="BFloat16"), "bfloat16", 16),
        (CommArgs(op="recv", in_elements=8, out_elements=2, dtype_name="Float"), "float32", 8),
        (CommArgs(op="all_reduce", in_elements="8", dtype_name="Float"), "float32", -1),
        (CommArgs(in_elements=8, dtype_name=None), "", -1),
    ],
)
def test_payloads_are_bytes_or_unknown(args: CommArgs, dtype: str, num_bytes: int) -> None:
    assert (args.dtype, args.num_bytes) == (dtype, num_bytes)
