"""What holds for all tests, and the real training job, run once for every test of it."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forks import fork, succeeded

TESTS = Path(__file__).parent

os.register_at_fork(after_in_child=gc.freeze)
"""A forked child leaves alone what it inherits: to free a DuckDB connection that is garbage of a
test before, it would wait for threads that it does not have, or crash."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is loaded and collected stays: nobody looks through it for garbage."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found


def pytest_unconfigure() -> None:
    """Else libraries print that what they made is left behind."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Servers that tests start keep their sessions apart from those of this user."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def _detectors_raise() -> None:
    """A detector that fails is a failed test, not a sentence in a diagnosis."""
    detectors = sys.modules.get("diagnosis.detectors")  # imported by the tests that need it
    if detectors is not None:
        detectors.catches_errors = False


@pytest.fixture(scope="session", autouse=True)
def _first_indexes_are_awaited() -> None:
    """A request waits for the first index of a run, however busy this machine is."""
    hub = sys.modules.get("app.runs.hub")  # imported by the tests that need it
    if hub is not None:
        hub.FIRST_INDEX_S = 60.0


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Where a test's runs lie; modules with runs of their own hide it."""
    return tmp_path / "runs"


ALL_VARIABLE = "RANKSCOPE_TEST_ALL"
"""1: all cases of tests that are marked as sampled."""
SHORT = ("app", "diagnosis", "ingest")
"""Folders of many files that take a few seconds each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that take long go first, so that all workers end at the same time."""
    items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] in SHORT)
    if os.environ.get(ALL_VARIABLE) != "1":
        left_out = set(_left_out(items))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def _left_out(items: list[pytest.Item]) -> Iterator[str]:
    """Of a test that is marked as sampled all cases but every fifth, or every `every`-th."""
    cases: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is None:
            continue
        function = item.nodeid.partition("[")[0]
        if cases[function] % marker.kwargs.get("every", 5):
            yield item.nodeid
        cases[function] += 1


@dataclass(frozen=True)
class Job:
    """A finished run of sample_traces.jobs.train_3d and the sizes it had."""

    folder: Path
    losses: list[dict[str, float]]
    pp: int
    dp: int
    tp: int
    num_steps: int
    num_microbatches: int
    num_layers: int


def run_train_3d(
    runs: Path,
    name: str,
    *,
    pp: int,
    dp: int,
    tp: int,
    num_steps: int,
    num_microbatches: int,
    num_layers: int,
    options: tuple[str, ...] = (),
    environ: dict[str, str] | None = None,
) -> Job:
    """Run the job with its own launcher below `runs`; fails the test where the job fails."""
    losses = runs / f"{name}.losses"
    sizes = {
        "nproc": pp * dp * tp,
        "pp": pp,
        "dp": dp,
        "tp": tp,
        "steps": num_steps,
        "microbatches": num_microbatches,
        "layers": num_layers,
        "runs": runs,
        "losses": losses,
    }
    command = ["-m", "sample_traces.jobs.train_3d", "--device", "cpu"]
    for option, value in sizes.items():
        command += [f"--{option}", str(value)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACE_HOOKS")}
    clean |= {"TRACE_HOOKS_RUN": name, "OMP_NUM_THREADS": "1"} | (environ or {})
    succeeded([fork(runs / name, [*command, *options], clean)])
    lines = losses.read_text(encoding="utf-8").splitlines()
    return Job(
        runs / name,
        [json.loads(line) for line in lines],
        pp,
        dp,
        tp,
        num_steps,
        num_microbatches,
        num_layers,
    )


@pytest.fixture(scope="session")
def train_3d() -> Callable[..., Job]:
    """Runs the job: see run_train_3d."""
    return run_train_3d


@pytest.fixture(scope="session")
def recorded_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The 8-rank job with TP 2 x PP 2 x DP 2 under 1F1B; must not be changed."""
    return run_train_3d(
        tmp_path_factory.mktemp("recorded_job"),
        "job",
        pp=2,
        dp=2,
        tp=2,
        num_steps=3,
        num_microbatches=4,
        num_layers=4,
        options=("--batch", "1"),
    )
