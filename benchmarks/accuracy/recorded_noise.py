"""Recordings of healthy jobs for the generator: what each rank did in each step, as .npz files.

python -m benchmarks.accuracy.recorded_noise RUN.. --into FOLDER

RUN: anything that rankscope opens (a run folder, a folder of phase logs). Record jobs of your own
with `python -m sample_traces.jobs.train_3d --steps 150` while other processes run.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from app.analysis.imports import open_any
from ingest.errors import UserError
from sample_traces.generate.labelled.worlds import RECORDED

FEWEST_STEPS = 40
_COLUMNS = {
    "step": "step_ms",
    "data": "data_ms",
    "compute": "compute_ms",
    "comm": "comm_ms",
    "wait": "host_ms",
}
_REPOSITORY = Path(__file__).resolve().parents[2]
TRACES = _REPOSITORY.parent / "shared" / "traces"
"""Real traces next to the repository, where there are any."""


def record(path: Path, name: str, folder: Path) -> Path | None:
    """Write the recording of one run; None where it has too few steps."""
    with open_any(path) as run:
        rows = run.ask("rank_phases")
    rank, step = (rows[key].to_numpy() for key in ("rank", "step"))
    ranks, steps = np.unique(rank), np.unique(step)
    at = np.searchsorted(steps, step), np.searchsorted(ranks, rank)
    found = {}
    for timer, column in _COLUMNS.items():
        times = np.full((steps.size, ranks.size), np.nan)
        times[at] = rows[column].to_numpy(zero_copy_only=False)
        found[timer] = times
    whole_S = np.isfinite(found["step"]).all(axis=1)
    arrays = {timer: times[whole_S] for timer, times in found.items()}
    arrays = {timer: times for timer, times in arrays.items() if times.any()}
    if whole_S.sum() < FEWEST_STEPS:
        return None
    target = folder / f"{name}.npz"
    np.savez_compressed(target, **arrays)
    return target


@contextmanager
def noise_folder(given: Path | None, worlds: str) -> Iterator[str]:
    """A folder of recordings: the given one, or what healthy baselines next to the repository have;
    empty: there are none, or none of the worlds needs them.
    """
    needed = any(world in worlds for world in RECORDED)
    if given is not None or not needed or not TRACES.is_dir():
        yield str(given or "")
        return
    with tempfile.TemporaryDirectory() as name:
        for label, path in healthy_baselines(Path(name) / "logs"):
            record(path, label, Path(name))
        yield name if any(Path(name).glob("*.npz")) else ""


def healthy_baselines(scratch: Path) -> Iterator[tuple[str, Path]]:
    """Name and folder of each labelled baseline in TRACES."""
    for path in sorted((TRACES / "fault_injection").glob("*/baseline")):
        yield path.parent.name, path
    for packed in sorted((TRACES / "fault_injection_2").glob("*-baseline.tar.gz")):
        name = packed.name.removesuffix(".tar.gz")
        yield name, unpacked(packed, scratch / name)


def unpacked(packed: Path, folder: Path) -> Path:
    """The folder that an archive is unpacked to."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args(arguments)
    given.into.mkdir(parents=True, exist_ok=True)
    for run in given.runs:
        name = run.resolve().name
        if (given.into / f"{name}.npz").exists():
            raise SystemExit(f"{given.into} has a recording {name} already: rename {run}")
        try:
            written = record(run, name, given.into)
        except UserError as error:
            raise SystemExit(str(error)) from None
        print(written or f"{run} has fewer than {FEWEST_STEPS} steps: left out")


if __name__ == "__main__":
    main()
