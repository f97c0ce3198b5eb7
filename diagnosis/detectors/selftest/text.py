"""The findings of a self-test in words: one for each host, rank or link, whatever tests show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from diagnosis.detectors.selftest.culprits import Culprit
from diagnosis.detectors.selftest.measurements import QUESTION, Cell, Failed
from diagnosis.findings import Evidence, Finding, Place
from diagnosis.statistics.evidence_links import View

KIND_OF = {
    "host": "selftest_host",
    "rank": "selftest_device",
    "hosts": "selftest_link",
    "link": "selftest_link",
}
URGENT = 1.5
"""Times as slow: it decides how fast the whole job is."""
MOST_EVIDENCE = 6
_MIB = 1 << 20

TESTS = {
    "matmul": "matrix products",
    "memory": "copies in memory",
    "h2d": "copies from host to device",
    "d2h": "copies from device to host",
    "mesh": "messages inside a host",
    "pair": "messages between hosts",
    "halves": "all-reduce of a part",
    "all_reduce": "all-reduce of all ranks",
}


def cell_text(cell: Cell) -> str:
    """messages inside a host (64 KiB)"""
    return f"{TESTS[cell.test]} ({size_text(cell.num_bytes)})"


def _begun(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def size_text(num_bytes: int) -> str:
    """64 KiB, 8 MiB."""
    return f"{num_bytes / _MIB:.4g} MiB" if num_bytes >= _MIB else f"{num_bytes / 1024:.4g} KiB"


def checked_text(cells: Sequence[Cell]) -> str:
    """What was compared and is in order."""
    parts = ", ".join(f"{len(cell.measured)} {cell_text(cell)}" for cell in cells)
    return f"No host, device or link of the self-test is slower than the others: {parts}."


def unclear_text(cell: Cell, number: int) -> str:
    """Too many differ to be named."""
    return (
        f"{number} of {len(cell.measured)} pairs are slower in {cell_text(cell)}: too many to name "
        "any of them."
    )


def unconfirmed_text(culprit: Culprit) -> str:
    """It was slow once."""
    _, _, who = _who(culprit)
    return (
        f"{who} took {culprit.ratio:.2g} times as long as the others in {cell_text(culprit.cell)}, "
        "but was not measured again: give a larger --budget-s."
    )


def findings_of(
    culprits: Sequence[Culprit], attempt: int, compared_with: str
) -> tuple[Finding, ...]:
    """One finding per culprit; pairs of a host or rank that is named are part of it."""
    together: dict[tuple[str, object], list[Culprit]] = defaultdict(list)
    for culprit in culprits:
        together[culprit.what, culprit.who].append(culprit)
    named = {what: {who for kind, who in together if kind == what} for what in KIND_OF}
    kept = []
    for (what, _), own in together.items():
        measured = own[0].cell.measured[own[0].index]
        is_part = what != "host" and named["host"] & {(host,) for host in measured.hosts}
        is_end = "link" in what and named["rank"] & {(rank,) for rank in measured.ranks}
        is_one_of = what == "link" and tuple(sorted(measured.hosts)) in named["hosts"]
        if not (is_part or is_end or is_one_of):
            kept.append(_finding(own, attempt, compared_with))
    return tuple(kept)


def _finding(own: Sequence[Culprit], attempt: int, compared_with: str) -> Finding:
    worst = max(own, key=lambda culprit: culprit.ratio)
    places, hosts, who = _who(worst)
    tests = ", ".join(f"{one.ratio:.2g} times in {cell_text(one.cell)}" for one in own)
    title, cause, others, then = _words(worst, who)
    return Finding(
        kind=KIND_OF[worst.what],
        attempt=attempt,
        severity="urgent" if worst.ratio >= URGENT else "warning",
        confidence="high" if _is_sure(worst) else "medium",
        title=title,
        text=f"{who} takes longer than {compared_with}: {tests}.",
        culprits=places,
        first_step=0,
        last_step=0,
        ongoing=True,
        slowdown=round(worst.ratio, 4),
        evidence=tuple(_evidence(culprit, attempt) for culprit in own[:MOST_EVIDENCE]),
        alternatives=others,
        next_step=then,
        hosts=hosts,
        cause=cause,
    )


def _is_sure(culprit: Culprit) -> bool:
    """Measured again, or many measurements agree."""
    return bool(culprit.cell.is_rechecked_M[culprit.index]) or culprit.num_slow > 2


def _who(culprit: Culprit) -> tuple[tuple[Place, ...], tuple[str, ...], str]:
    """Places, whole hosts, and a name."""
    host_of = {rank: host for one in culprit.cell.measured for rank, host, _ in one.ends}
    if culprit.what in ("host", "hosts"):
        names = tuple(map(str, culprit.who))
        places = tuple(Place(r, host_of[r]) for r in sorted(host_of) if host_of[r] in names)
        one = f"Host {names[0]}"
        return places, names, one if len(names) == 1 else f"The link between {' and '.join(names)}"
    places = tuple(Place(int(rank), host_of[int(rank)]) for rank in culprit.who)
    named = [f"rank {place.rank} on {place.host}" for place in places]
    if len(named) == 1:
        return places, (), f"R{named[0][1:]}"
    return places, (), f"The link between {named[0]} and {named[1]}"


def _words(culprit: Culprit, who: str) -> tuple[str, str, tuple[str, ...], str]:
    """Title, cause, alternatives, next step."""
    if culprit.what == "host":
        return (
            f"{who} is slow in the self-test",
            f"{culprit.num_slow} of {culprit.num_of} of its measurements are slow.",
            ("Another program on that host.", "The switch or cable that all its links share."),
            "Leave the host out of the job, then look at its clocks, PCIe links and network card.",
        )
    if culprit.what == "rank":
        what = "device" if culprit.cell.is_of_devices else "device or network card"
        return (
            f"{who} is slow in the self-test",
            f"Its {what}: {culprit.num_slow} of {culprit.num_of} measurements are slow.",
            ("Another program on the same device or on its cores.",),
            "Compare its clocks, temperature and PCIe link with the other devices; run it again.",
        )
    return (
        f"{who} is slow in the self-test",
        "Other links of both ends are as fast as usual.",
        ("A path through the network that other traffic uses.",),
        "Run the self-test again; look at the error counters of both ports and of what is between.",
    )


def _evidence(culprit: Culprit, attempt: int) -> Evidence:
    measured = culprit.cell.measured[culprit.index]
    row = measured.row
    ends = " and ".join(f"rank {rank}" for rank in measured.ranks)
    ends += " take" if len(measured.ranks) > 1 else " takes"
    is_again = culprit.cell.is_rechecked_M[culprit.index]
    more = " It was slow again with all others idle." if is_again else ""
    seconds = row["seconds_median"]
    return Evidence(
        f"{_begun(cell_text(culprit.cell))}: {ends} {1e3 * seconds:,.3g} ms "
        f"({row['value']:.3g} {row['unit']}).{more}",
        row["value"],
        row["unit"],
        QUESTION,
        (("attempt", attempt),),
        _view(attempt, measured.ranks[0]),
    )


def _view(attempt: int, rank: int) -> View:
    return (("page", "selftest"), ("attempt", attempt), ("rank", rank))


def failed_finding(failed: Failed, attempt: int) -> Finding:
    """A transfer that failed or did not end."""
    named = ", ".join(map(str, failed.ranks))
    return Finding(
        kind=KIND_OF["link"],
        attempt=attempt,
        severity="urgent",
        confidence="high",
        title=f"Transfers between ranks {named} fail in the self-test",
        text=f"{_begun(TESTS[failed.test])} of ranks {named} failed: {failed.problem}",
        culprits=tuple(Place(rank) for rank in failed.ranks),
        first_step=0,
        last_step=0,
        ongoing=True,
        evidence=(
            Evidence(
                f"{failed.test} of ranks {named}: {failed.problem}",
                float(len(failed.ranks)),
                "ranks",
                QUESTION,
                (("attempt", attempt),),
                _view(attempt, failed.ranks[0]),
            ),
        ),
        alternatives=("A firewall, or a network interface that the other host cannot reach.",),
        next_step="Check that both hosts reach each other on the interface that the job uses.",
        hosts=(),
        cause="The transfer did not end in time, or the connection broke.",
    )


def fleet_finding(kind: str, slower: Sequence[tuple[Cell, float]], attempt: int) -> Finding:
    """Everything takes longer than in the baseline."""
    tests = ", ".join(f"{ratio:.2g} times in {cell_text(cell)}" for cell, ratio in slower)
    cell, ratio = max(slower, key=lambda one: one[1])
    row: Mapping[str, Any] = cell.measured[0].row
    return Finding(
        kind=kind,
        attempt=attempt,
        severity="urgent" if ratio >= URGENT else "warning",
        confidence="medium",
        title="All machines are slower than in the baseline",
        text=f"The median takes longer than in the baseline: {tests}.",
        first_step=0,
        last_step=0,
        ongoing=True,
        slowdown=round(ratio, 4),
        evidence=(
            Evidence(
                f"{_begun(cell_text(cell))}: rank {row['rank']} reaches {row['value']:.3g} "
                f"{row['unit']}.",
                row["value"],
                row["unit"],
                QUESTION,
                (("attempt", attempt),),
                _view(attempt, row["rank"]),
            ),
        ),
        alternatives=("Another driver, library or setting.", "Other programs on all machines."),
        next_step="Compare versions and settings of both runs; run the self-test again when idle.",
        cause="What all machines have in common has changed.",
    )
