"""rankscope mfu --operations: from files of torch.profiler to the table, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.analysis.imports import import_paths
from app.cli import EXIT_USER_ERROR, main
from app.commands.mfu import EXIT_NOT_ENOUGH
from tests.folders import NO_TRACES, TRACES
from tests.ingest.readers.kineto.profiler_files import Json, collective, event, write
from tests.profiled_runs import H100, products, profiled_job


def _json(capsys: pytest.CaptureFixture[str]) -> Json:
    found: Json = json.loads(capsys.readouterr().out)
    return found


def test_products_of_4096_cubed_on_an_h100_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.json", products(200), deviceProperties=H100)
    assert main(["mfu", str(path), "--operations", "--json"]) == 0
    found = _json(capsys)
    (one,) = found["operations"]
    assert (one["flops"], one["num_bytes"]) == (137_438_953_472, 100_663_296)
    assert one["tflops_per_s"] == pytest.approx(687.19, abs=0.01)  # 137.4 GFLOP in 200 us
    assert one["gb_per_s"] == pytest.approx(503.3, abs=0.1)
    assert one["intensity"] == pytest.approx(1365.33, abs=0.01)
    assert (one["bound"], one["calls"], one["ms"]) == ("compute", 10, 2.0)
    assert one["roof_share"] == pytest.approx(0.6948, abs=0.0001)  # of 989 TFLOP/s
    assert one["lost_ms"] == pytest.approx(0.610, abs=0.001)
    assert (found["steps"], found["kernel_ms"], found["known_share"]) == ([7, 7], 2.0, 1.0)


def test_the_table_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.json", products(200), deviceProperties=H100)
    assert main(["mfu", str(path), "--operations"]) == 0
    first, heads, row, _, saving, peers = capsys.readouterr().out.splitlines()
    assert first == (
        "step 7: 2.0 ms of kernels per step, 1 rank, NVIDIA H100 80GB HBM3, 989 TFLOP/s at 16 bits,"
        " 67 TFLOP/s at float32, 3350 GB/s"
    )
    assert heads.split()[:4] == ["operation", "and", "shapes", "dtype"]
    assert row == (
        "mm 4096 x 4096, 4096 x 4096  bfloat16     10  2.000      687   503   1,365   compute"
        "      69 %       0.610"
    )
    assert saving.startswith(
        "At their rooflines, operations would take 0.61 ms less of the 2.00 ms"
    )
    assert peers.startswith("No kernel can be compared between ranks")


def test_a_rank_with_slow_kernels_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mfu", str(profiled_job(tmp_path / "in")), "--operations", "--json"]) == 0
    found = _json(capsys)
    (slow,) = found["comparison"]["ranks"]
    assert (slow["rank"], slow["num_compared"], slow["is_device"]) == (2, 1, False)
    assert found["peers"].startswith("Rank 2: mm 4096 x 4096, 4096 x 4096 takes 260 \u00b5s, 29 %")


def test_a_real_profile_of_a_cpu_has_no_peak_unless_it_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    left, right = torch.randn(96, 64), torch.randn(64, 32)
    path = tmp_path / "rank-0.json"
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True) as profile:
        for _ in range(5):
            (left @ right).relu()
    profile.export_chrome_trace(str(path))
    assert main(["mfu", str(path), "--operations", "--json"]) == 0
    found = _json(capsys)
    by_name = {one["name"]: one for one in found["operations"]}
    product, relu = by_name["aten::mm"], by_name["aten::relu"]
    assert (product["flops"], product["num_bytes"]) == (2 * 96 * 64 * 32, 4 * (6144 + 2048 + 3072))
    assert (product["calls"], relu["num_bytes"]) == (5, 2 * 4 * 96 * 32)
    assert product["roof_share"] is None
    assert sum("is not known (device of unknown name)" in note for note in found["notes"]) == 2

    given = ["--peak-tflops", "0.1", "--bandwidth", "20"]
    assert main(["mfu", str(path), "--operations", "--json", *given]) == 0
    product = next(one for one in _json(capsys)["operations"] if one["name"] == "aten::mm")
    # 393,216 FLOPs take 3.93 us at 1e11 FLOP/s, 45,056 bytes 2.25 us at 2e10 B/s
    assert (product["bound"], product["peak_tflops"]) == ("compute", 0.1)
    assert product["roof_share"] == pytest.approx(3.93216 / product["call_us"])


def test_a_rank_that_left_no_file_about_itself_has_no_roofline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = import_paths([profiled_job(tmp_path / "in")], tmp_path / "runs")
    (folder / "ranks" / "0000-00002.json").unlink()
    assert main(["mfu", str(folder), "--operations", "--json"]) == 0
    found = _json(capsys)
    (one,) = found["operations"]
    assert (found["num_ranks"], one["calls"], one["roof_share"]) == (4, 10, None)
    assert found["comparison"]["num_compared"] == 0  # three devices of one name are too few


def test_calls_beside_communication_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 2 waits in a collective while it computes: its kernels are slow for that."""
    for rank in range(4):
        events = products(260 if rank == 2 else 200 + rank)
        waits = 9_000 if rank == 2 else 100
        name = "ncclDevKernel_AllReduce_Sum_bf16"
        events.append(event(name, 500, waits, "kernel", tid=20, args=collective("allreduce")))
        info = {"rank": rank, "world_size": 4}
        write(tmp_path / "in" / f"{rank}.json", events, rank, distributedInfo=info)
    assert main(["mfu", str(tmp_path / "in"), "--operations", "--json"]) == 0
    found = _json(capsys)
    assert found["operations"][0]["calls"] == 10  # the roofline has all of them
    assert (found["comparison"]["num_compared"], found["comparison"]["ranks"]) == (0, [])


def test_kernels_without_shapes_are_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.json", products(200, args={}))
    assert main(["mfu", str(path), "--operations"]) == EXIT_NOT_ENOUGH
    out, err = capsys.readouterr()
    assert (out, "profile with record_shapes=True" in err) == ("", True)


def test_steps_without_a_profile_and_wrong_arguments_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / "a.json", products(200)))
    assert main(["mfu", path, "--operations", "--window", "90:99", "--json"]) == EXIT_NOT_ENOUGH
    found = _json(capsys)
    assert (found["operations"], "but in step 7" in found["reason"]) == (None, True)
    assert main(["mfu", path, "--operations", "--against", "1:2"]) == EXIT_USER_ERROR
    assert "leave out --against" in capsys.readouterr().err


@pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)
def test_a_real_profile_of_an_h100(capsys: pytest.CaptureFixture[str]) -> None:
    """48 products of 8944 x 1024 x 2816 take 4.015501 ms: 83.7 us each, counted in the file."""
    path = TRACES / "kineto/tracelens/h100__qwen1.5-0.5b.json.gz"
    assert main(["mfu", str(path), "--operations", "--json"]) == 0
    found = _json(capsys)
    first = found["operations"][0]
    assert (first["name"], first["shapes"]) == ("aten::mm", "8944 x 1024, 1024 x 2816")
    assert (first["calls"], first["ms"]) == (48, pytest.approx(4.015501))
    seconds = 4.015501e-3 / 48
    assert first["tflops_per_s"] == pytest.approx(2 * 8944 * 1024 * 2816 / seconds / 1e12)
    assert first["roof_share"] == pytest.approx(first["tflops_per_s"] / 989)
    assert 0.5 < found["known_share"] < 1
