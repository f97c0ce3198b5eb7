"""Scores the diagnosis on labelled runs of real accelerators: phase logs with injected faults.

python -m benchmarks.accuracy.labelled_traces [FOLDER ..] [--only TEXT] [--json FILE]

FOLDER holds either labels.json and NAME.tar.gz, or NAME/manifest.yaml with the folders baseline and
injected. Which kinds of findings count as right is fixed here, before anything is scored.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.accuracy.judge import answer, with_truth
from benchmarks.accuracy.recorded_noise import TRACES, unpacked
from benchmarks.accuracy.score import STEPS_ARE_LONGER, names_nobody
from benchmarks.accuracy.tables import in_words
from sample_traces.generate.labelled.step_truth import StepTruth

FOLDERS = (TRACES / "fault_injection_2", TRACES / "fault_injection")

IN_DATA = ("data_loader", "gc_pauses", "slow_worker", "launch_skew")
IN_COMPUTE = ("slow_worker", "launch_skew", "host_contention", "allocator_stalls")
"""Kinds that fit a rank that stalls in its data or in its compute timer. Of host-wide faults and
baselines no rank is named.
"""
_KIND_OF_INJECTION = {"8a": IN_DATA, "inline_cube": IN_COMPUTE}
"""By inject_kind of a manifest; others name nobody: a fault of communication in the whole run."""

RIGHT, WITH_OTHERS, WRONG_KIND = "right", "right and others", "right rank, wrong kind"
WRONG, MISSED, QUIET, NAMED = "wrong name", "missed", "nobody named", "somebody named"


@dataclass(frozen=True)
class Arm:
    """One run and its label. `rank`: None where nobody may be named; `folder`: its logs."""

    name: str
    folder: Path
    rank: int | None = None
    kinds: tuple[str, ...] = ()
    steps: tuple[int, int] | None = None
    what: str = ""


@dataclass
class Verdict:
    """How one arm was judged. `others`: innocent ranks that are named; `untrue`: findings."""

    arm: str
    what: str
    verdict: str
    onset_error: int | None = None
    others: list[int] = field(default_factory=list)
    untrue: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def arms_in(folder: Path, scratch: Path) -> Iterator[Arm]:
    """All runs of a folder, unpacked where they are archives."""
    labels = folder / "labels.json"
    if labels.exists():
        for name, label in sorted(json.loads(labels.read_text(encoding="utf-8")).items()):
            logs = unpacked(folder / f"{name}.tar.gz", scratch / name)
            yield _labelled(name, logs, label)
    for manifest in sorted(folder.glob("*/manifest.yaml")):
        yield from _arms_of(manifest)


def _labelled(name: str, logs: Path, label: dict[str, Any]) -> Arm:
    if label["fault"] is None:
        return Arm(name, logs, what="healthy")
    first, last = label["steps"]
    if label["host_wide"]:
        return Arm(name, logs, steps=(first, last), what="host-wide")
    kinds = IN_DATA if "data timer" in label["fault"] else IN_COMPUTE
    return Arm(name, logs, label["rank"], kinds, (first, last), label["fault"])


def _arms_of(manifest: Path) -> Iterator[Arm]:
    about = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    name = manifest.parent.name
    if (manifest.parent / "baseline").is_dir():
        yield Arm(f"{name}-baseline", manifest.parent / "baseline", what="healthy")
    kinds = _KIND_OF_INJECTION.get(about["inject_kind"], ())
    first, last = about["inject_window_measure"]
    rank = about["victim_local_rank"] if kinds else None
    what = about["inject_kind"] if kinds else "whole run, not identifiable"
    yield Arm(f"{name}-injected", manifest.parent / "injected", rank, kinds, (first, last), what)


def judged(arm: Arm) -> Verdict:
    """Diagnose one run and compare with its label."""
    _, output = answer(["diagnose", str(arm.folder)])
    truth = step_truth(arm)
    findings = [with_truth(finding, truth) for finding in output["findings"]]
    verdict = Verdict(arm.name, arm.what, verdict_of(arm, findings, len(log_files(arm.folder))))
    fitting = [f for f in findings if _fits(f, arm)]
    if fitting and arm.steps:
        verdict.onset_error = min(abs(f["steps"][0] - arm.steps[0]) for f in fitting)
    verdict.others = sorted({rank for f in findings for rank in f["ranks"]} - {arm.rank})
    verdict.untrue = [in_words(f) for f in findings if names_nobody(f) and not _is_true(f)]
    verdict.findings = [f"{in_words(f)} ({f['confidence']})" for f in findings]
    return verdict


def verdict_of(arm: Arm, findings: Sequence[dict[str, Any]], num_ranks: int) -> str:
    """The verdict on what is reported of a run."""
    named = [f for f in findings if not names_nobody(f)]
    if arm.rank is None:
        is_healthy = arm.steps is None
        accused = [f for f in named if is_healthy or 0 < len(f["ranks"]) < num_ranks]
        return NAMED if accused else QUIET
    innocents = [f for f in named if f["ranks"] != [arm.rank]]
    if any(_fits(f, arm) for f in named):
        return WITH_OTHERS if innocents else RIGHT
    if innocents:
        return WRONG
    return WRONG_KIND if named else MISSED


def log_files(folder: Path) -> list[Path]:
    """The logs of all ranks."""
    return sorted(folder.glob("**/rank_*.jsonl"))


def _fits(finding: dict[str, Any], arm: Arm) -> bool:
    """Whether it names the rank alone, with a kind that fits, in steps of the fault."""
    if arm.steps is None or finding["ranks"] != [arm.rank] or finding["kind"] not in arm.kinds:
        return False
    first, last = finding["steps"]
    return bool(first <= arm.steps[1] and arm.steps[0] <= last)


def _is_true(finding: dict[str, Any]) -> bool:
    return finding["kind"] in STEPS_ARE_LONGER and bool(finding["steps_are_longer"])


def step_truth(arm: Arm) -> StepTruth:
    """Step times of the run; without the fault: the usual step of the same run."""
    found: dict[int, list[float]] = {}
    for path in log_files(arm.folder):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.setdefault(row["step"], []).append(row["step_ms"])
    with_S = np.array([np.median(found[step]) for step in sorted(found)])
    step_S = np.array(sorted(found))
    first, last = arm.steps or (0, -1)
    inside_S = (step_S >= first) & (step_S <= last)
    usual = np.median(with_S[~inside_S])
    return StepTruth(with_S, np.where(inside_S, usual, with_S), int(step_S[0]))


def as_table(verdicts: Sequence[Verdict]) -> list[str]:
    """One row per run, then counts."""
    names = ["run", "fault", "verdict", "onset off by", "innocents named", "untrue", "findings"]
    rows = []
    for one in verdicts:
        shown = "; ".join(one.findings[:3]) + ("; .." if len(one.findings) > 3 else "")
        cells = [one.arm, one.what, one.verdict]
        cells.append("-" if one.onset_error is None else str(one.onset_error))
        cells += [",".join(map(str, one.others)) or "-", "; ".join(one.untrue) or "-", shown or "-"]
        rows.append(f"| {' | '.join(cells)} |")
    counts = Counter(one.verdict for one in verdicts)
    summary = ", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items()))
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|", *rows, "", f"{summary}."]


def judged_in(folders: Sequence[Path], only: str = "") -> list[Verdict]:
    """All runs of these folders whose name has a text."""
    with tempfile.TemporaryDirectory() as scratch:
        arms = [arm for folder in folders for arm in arms_in(folder, Path(scratch))]
        return [judged(arm) for arm in arms if only in arm.name]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=list(FOLDERS), metavar="FOLDER")
    parser.add_argument("--only", default="", help="runs whose name has this text")
    parser.add_argument("--json", type=Path, help="also write the verdicts to this file")
    given = parser.parse_args(arguments)
    missing = [str(folder) for folder in given.folders if not folder.is_dir()]
    if missing:
        raise SystemExit(f"no such folder: {', '.join(missing)}")
    verdicts = judged_in(given.folders, given.only)
    if not verdicts:
        raise SystemExit("no labelled run there, in labels.json or in NAME/manifest.yaml")
    print(*as_table(verdicts), sep="\n")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in verdicts], indent=1))


if __name__ == "__main__":
    main()
