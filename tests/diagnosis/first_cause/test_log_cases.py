"""The first cause of public failures, from short logs rebuilt from the lines in their threads."""

from __future__ import annotations

import pytest

from ingest.imports.worker_command import HERE_VARIABLE
from tests.diagnosis.first_cause.logs import finding_on
from tests.diagnosis.first_cause.public_threads import CASES, PublicCase


@pytest.fixture(autouse=True)
def reads_here(monkeypatch):
    monkeypatch.setenv(HERE_VARIABLE, "1")


def _ids(case: PublicCase) -> str:
    return case.name


@pytest.mark.sampled
@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=_ids)
def test_the_agreed_cause_is_found_and_advised(case, tmp_path):
    finding = finding_on(tmp_path, {"train.log": case.log})
    if finding is None:
        assert case.may_be_silent
        return
    assert case.says in f"{finding.cause} {finding.text}"
    assert finding.advice == case.advice
    assert {place.rank for place in finding.culprits} <= case.ranks
    assert set(finding.hosts) <= case.hosts
    told = " ".join((finding.title, finding.text, finding.next_step, *finding.alternatives))
    for piece in case.also:
        assert piece in told


@pytest.mark.parametrize("case", [case for case in CASES if not case.says], ids=_ids)
def test_nothing_is_claimed_where_the_log_does_not_show_it(case, tmp_path):
    assert finding_on(tmp_path, {"train.log": case.log}) is None
