"""Real incidents of which dumps are missing: who is named is always at fault."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from diagnosis.detectors.stuck import detect
from diagnosis.stuck.evidence import QUESTIONS
from ingest.imports.importer import import_paths
from ingest.run import open_run
from tests.folders import NO_TRACES, TRACES

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=NO_TRACES)

AT_FAULT = {"gpu_error_1st": {12, 14}, "lock_gil_1st": {9, 14}}
RANKS = set(range(16))
NUM_HALVES = 200

Answers = dict[str, pa.Table]


def imported(name: str, ranks: set[int]) -> Answers:
    with TemporaryDirectory() as folder:
        given = Path(folder) / "in"
        given.mkdir()
        for rank in ranks:
            shutil.copy(TRACES / "flight_recorder" / name / f"_dump_{rank}", given)
        with open_run(import_paths([given], Path(folder) / "runs")) as run:
            return {question: run.ask(question, attempt=0) for question in QUESTIONS}


@cache
def whole(name: str) -> Answers:
    return imported(name, RANKS)


def kept(answers: Answers, ranks: set[int]) -> Answers:
    """What is left where only dumps of `ranks` lie there: each describes its own groups."""
    left = pa.array(sorted(ranks), pa.int32())
    of_ranks = {
        name: answers[name].filter(pc.is_in(answers[name]["rank"].cast(pa.int32()), left))
        for name in QUESTIONS
        if name != "groups"
    }
    groups = answers["groups"]
    described = [bool(ranks & set(members)) for members in groups["ranks"].to_pylist()]
    return of_ranks | {"groups": groups.filter(pa.array(described))}


def named_by(answers: Answers) -> set[int]:
    verdict = detect(answers, 0)
    return {place.rank for one in (verdict.findings if verdict else ()) for place in one.culprits}


def halves() -> Iterator[set[int]]:
    choices = random.Random(21)
    for _ in range(NUM_HALVES):
        yield set(choices.sample(sorted(RANKS), choices.choice([8, 8, 8, choices.randint(1, 15)])))


@pytest.mark.parametrize("name", AT_FAULT)
def test_nobody_innocent_is_named_whatever_is_missing(name: str) -> None:
    answers, at_fault = whole(name), AT_FAULT[name]
    assert named_by(answers) == at_fault
    for rank in RANKS:
        named = named_by(kept(answers, RANKS - {rank}))
        assert named
        assert named <= at_fault - {rank}
    found = [(named_by(kept(answers, ranks)), ranks) for ranks in halves()]
    assert [(sorted(named), ranks) for named, ranks in found if not named <= at_fault] == []
    assert sum(bool(named) for named, _ in found) >= NUM_HALVES * 0.4


@pytest.mark.parametrize("name", AT_FAULT)
def test_an_import_of_some_dumps_holds_what_is_left_of_all(name: str) -> None:
    ranks = set(range(3, 16, 2)) | {12, 14}
    answers = imported(name, ranks)
    assert named_by(answers) == named_by(kept(whole(name), ranks))
    left = kept(whole(name), ranks)
    for question in ("entered_collectives", "groups"):
        rows = [sorted(map(str, some[question].to_pylist())) for some in (answers, left)]
        assert rows[0] == rows[1]
