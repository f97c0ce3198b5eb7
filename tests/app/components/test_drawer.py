"""The drawer: each finding with its evidence, what was checked, what cannot be judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.analysis.not_identifiable import not_identifiable
from app.components.banner import banner
from app.components.drawer import MOST_LISTED, drawer
from app.view_state import parse_url
from app.views.run.about_run import Clocks
from diagnosis.detectors import against_baseline
from diagnosis.findings import Diagnosis, NotEnoughData, Place, Verdict
from tests.app.pages_in_process import having, text_of
from tests.app.recorded_runs import VIEW

HOSTILE = "<script>alert(1)</script>"


def test_the_drawer_holds_evidence_alternatives_and_what_could_not_be_judged(
    diagnosis: Diagnosis,
) -> None:
    finding = diagnosis.findings[0]
    full = Diagnosis(
        (
            *diagnosis.verdicts,
            Verdict("b", not_enough=(NotEnoughData("b", "no clocks"),), set_aside=("odd host",)),
        )
    )
    tree = drawer(full, VIEW, "")
    text = text_of(tree)
    for evidence in finding.evidence:
        assert evidence.sentence in text
        (link,) = [
            part
            for part in having(tree, title=f"saved query {evidence.question}")
            if parse_url(*part.href.split("?"))[0].args
            == tuple((name, str(value)) for name, value in evidence.params)
        ][:1]
        assert parse_url(*link.href.split("?"))[0].q == evidence.question
    for sentence in (*finding.alternatives, finding.next_step, "no clocks", "odd host", "node0"):
        assert sentence in text
    (open_one,) = having(tree, open=True)
    assert open_one.id == f"finding-{finding.id}"


def test_the_drawer_lists_the_most_urgent_of_thousands_and_the_chosen_one(
    diagnosis: Diagnosis,
) -> None:
    finding = diagnosis.findings[0]
    many = tuple(replace(finding, first_step=n, last_step=n + 1) for n in range(10_000))
    full = Diagnosis((Verdict("a", many),))
    last = full.findings[-1]
    tree = drawer(full, VIEW.to(finding=last.id), "")
    listed = [part.id for part in having(tree, open=False)] + [
        part.id for part in having(tree, open=True)
    ]
    assert len(listed) == MOST_LISTED
    assert {f"finding-{full.findings[0].id}", f"finding-{last.id}"} <= set(listed)
    assert "100 of 10,000 findings are listed" in text_of(tree)
    assert "are listed" not in text_of(drawer(diagnosis, VIEW, ""))


def test_the_drawer_names_what_cannot_be_decided_and_the_remedy(
    diagnosis: Diagnosis,
) -> None:
    clocks = Clocks("Ranks 3 and 4 of 8 have no common clock with the others.", is_unaligned=True)
    tree = drawer(diagnosis, VIEW, "", clocks)
    text = text_of(tree)
    for one in not_identifiable(diagnosis):
        assert one["why"] in text
        assert text.count(one["remedy"]) == 1
    (note,) = having(tree, className="note unaligned")
    assert text_of(note) == clocks.sentence
    compared = Diagnosis((*diagnosis.verdicts, Verdict(against_baseline.NAME, checked="As quick.")))
    assert not_identifiable(compared) == []
    assert "Cannot be decided" not in text_of(drawer(compared, VIEW, ""))


def test_what_two_detectors_have_in_common_is_shown_once() -> None:
    both = Diagnosis(
        (Verdict("a", checked="All as before."), Verdict("b", checked="All as before."))
    )
    assert text_of(drawer(both, VIEW, "")).count("All as before.") == 1


@pytest.mark.parametrize(
    ("last", "severity", "since", "steps"),
    [
        (13, "urgent", "since step 6", "6-13, to the newest step"),
        (6, "urgent", "in step 6", "6, the newest step"),
        (9, "past", "in steps 6 to 9", "6-9, over"),
        (6, "past", "in step 6", "6, over"),
    ],
)
def test_the_drawer_names_one_step_as_one(
    diagnosis: Diagnosis, last: int, severity: str, since: str, steps: str
) -> None:
    ongoing = severity != "past"
    finding = replace(
        diagnosis.findings[0],
        first_step=6,
        last_step=last,
        ongoing=ongoing,
        severity=severity,
        slowdown=None,
    )
    words = text_of(drawer(Diagnosis((Verdict("a", (finding,)),)), VIEW, "")).split()
    assert f"{finding.title} {since}" in " ".join(words)
    assert f"Steps {steps} Confidence" in " ".join(words)


@pytest.mark.parametrize(
    ("culprits", "victims", "words"),
    [
        ((5,), (3,), "Waiting for it rank 3"),
        ((5,), (1, 2, 3), "Waiting for it ranks 1-3"),
        ((5, 6), (1,), "Waiting for them rank 1"),
    ],
)
def test_one_rank_and_several(
    diagnosis: Diagnosis, culprits: tuple[int, ...], victims: tuple[int, ...], words: str
) -> None:
    finding = replace(diagnosis.findings[0], culprits=tuple(map(Place, culprits)), victims=victims)
    tree = drawer(Diagnosis((Verdict("a", (finding,)),)), VIEW, "")
    assert words in " ".join(text_of(tree).split())


def test_names_stay_text(diagnosis: Diagnosis) -> None:
    finding = replace(
        diagnosis.findings[0], culprits=(Place(5, HOSTILE),), text=HOSTILE, title=HOSTILE
    )
    diagnosed = Diagnosis((Verdict("a", (finding,)),))
    for tree in (banner(diagnosed, VIEW, ""), drawer(diagnosed, VIEW, "")):
        assert HOSTILE in text_of(tree)  # as text: Dash never makes markup of it
        assert not [part for part in having(tree) if "dangerously" in str(part.to_plotly_json())]
