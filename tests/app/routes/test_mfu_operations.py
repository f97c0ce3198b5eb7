"""The route of single operations, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from app.analysis.imports import import_paths
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings
from tests.app.server.asgi import Client
from tests.profiled_runs import profiled_job
from tests.runs_builder import RunBuilder


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, str]]:
    """A client, and the address of the operations of a profiled job."""
    folder = tmp_path_factory.mktemp("operations")
    run = import_paths([profiled_job(folder / "files")], folder / "runs").name
    RunBuilder(folder / "runs" / "bare", 2).rank_files()
    with closing(Hub(folder / "runs")) as hub:
        for name in (run, "bare"):
            hub.run(name)
        yield Client(make_app(hub, settings=Settings())), f"/api/run/{run}/mfu/operations"


def test_operations_and_slow_ranks(urls: tuple[Client, str]) -> None:
    client, url = urls
    found = client.get(url).json()
    (one,) = found["operations"]
    assert (one["name"], one["calls"], one["bound"]) == ("aten::mm", 10, "compute")
    assert [slow["rank"] for slow in found["comparison"]["ranks"]] == [2]
    assert found["roofs"]["gb_per_s"] == 3350


def test_a_peak_and_a_bandwidth_that_are_given(urls: tuple[Client, str]) -> None:
    client, url = urls
    found = client.get(f"{url}?peak=100&bandwidth=50").json()
    (one,) = found["operations"]
    # 100,663,296 bytes at 5e10 B/s take 2.01 ms, the FLOPs at 1e14 FLOP/s 1.37 ms
    assert (one["bound"], one["peak_tflops"]) == ("memory", 100)
    assert one["roof_share"] == pytest.approx(2013.27 / one["call_us"], rel=1e-4)
    assert any("values stay in caches" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "?steps=100..110",
            "Nothing was imported or captured in the steps that were chosen, but in step 7.",
        ),
        ("?attempt=9", "No profiler recorded kernels or operators."),
    ],
)
def test_steps_without_a_profile_are_a_sentence(
    urls: tuple[Client, str], query: str, reason: str
) -> None:
    client, url = urls
    found = client.get(f"{url}{query}").json()
    assert (found["operations"], reason in found["reason"]) == (None, True)


def test_a_run_without_a_profile_is_a_sentence(urls: tuple[Client, str]) -> None:
    client, _ = urls
    found = client.get("/api/run/bare/mfu/operations").json()
    assert found["reason"].startswith("No profiler recorded kernels or operators.")


@pytest.mark.parametrize("query", ["?bandwidth=x", "?bandwidth=0", "?peak=-1", "?steps=9..3"])
def test_what_cannot_be_read_is_refused_with_a_sentence(
    urls: tuple[Client, str], query: str
) -> None:
    client, url = urls
    answer = client.get(f"{url}{query}")
    assert answer.status == 400
    assert answer.json()["error"]
