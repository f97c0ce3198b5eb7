"""One cause, one finding: what several findings say of the same thing is said once.

- Episodes of the same ranks (or stage, or host, or job) and kind are one finding.
- Nearly all ranks of one host that are slow together for one reason are one finding on that host;
  where they are nearly all of the job, or a quarter of one whose hosts are unknown, no rank is at
  fault by itself.
- Ranks whose experts are given too many tokens compute longer for that.
- Links of ranks that are kept from their cores or stopped are slow for that.
- A host that computes longer while the network of other hosts is slow may be waiting for these.
- A rank that starts late from the step on from which another host is slow may be waiting for it.
- A whole job that is slower is no finding where others explain its steps.
- At most MOST_FINDINGS are listed, by urgency and cost.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from diagnosis.experts.echoes import Against, of_full_experts, unknown
from diagnosis.findings import Cost, Diagnosis, Finding, Place, Verdict
from diagnosis.kind_titles import KIND_TITLES
from diagnosis.statistics.shared_location import FEWEST_OF_HOST
from diagnosis.statistics.step_levels import FEWEST_STEPS
from diagnosis.statistics.units import named_ranks, steps_text

MOST_FINDINGS = 10

EXPLAINED = 0.5
"""A finding on the whole job is left out where others take this share of what it costs."""

_NEARLY_ALL = 0.8
_MANY = 0.25
"""So many of a job whose hosts are unknown have a cause in common: perhaps they are one host's."""
_OF_HOSTS = "host_contention"
"""Of this kind two ranks are enough: what keeps them from their cores is on their host."""
_SEVERITIES = ("urgent", "warning", "past")


Still = Callable[[int, int, int], float]
"""Of a rank and the first and last step: the share of a step that it stands still in its compute
beyond its peers; NaN without peers."""


def without_echoes(diagnosis: Diagnosis) -> Diagnosis:
    """Without deaths that are no cause: of ranks that were seen alive while the job was stuck, and
    with gloo of those that died in a collective that was entered differently, the ones with the
    smaller buffer.
    """
    findings = [finding for verdict in diagnosis.verdicts for finding in verdict.findings]
    is_mismatch = any(finding.kind in MISMATCHES for finding in findings)
    alive = {rank for one in findings if one.kind in ALIVE for rank in _seen_alive(one)}

    def echoes(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        why: dict[int, Finding | str | None] = {}
        for index, finding in enumerate(flat):
            if finding.kind not in DEATHS:
                continue
            if is_mismatch:
                text = "it died in a collective that was entered differently."
                why[index] = f"{finding.title}: {text}"
            elif {place.rank for place in finding.culprits} <= alive:
                why[index] = f"{finding.title}: the process was seen alive."
        return why

    return _with(diagnosis, [echoes])


def _seen_alive(stuck: Finding) -> set[int]:
    """Ranks that were waited for, and those that waited for them."""
    return {place.rank for place in stuck.culprits} | set(stuck.victims)


def merged(
    diagnosis: Diagnosis,
    hosts: dict[int, str | None],
    still: Still,
    against: Against = unknown,
) -> Diagnosis:
    """With one finding for each cause. `hosts`: of every rank; `against`: ranks with the same
    experts.
    """
    of_host = partial(_of_one_host, hosts=hosts, still=still)
    changes: list[Change] = [
        partial(of_full_experts, against=against),
        _of_one_place,
        of_host,
        _of_one_place,
        _waiting_for_hosts,
        _of_held_hosts,
        _links_of_held_ranks,
    ]
    return _with(diagnosis, changes)


MISMATCHES = ("mismatched_op", "mismatched_dtype", "mismatched_size")
DEATHS = ("dead_rank", "silent_host")
ALIVE = ("hung_rank", "missing_rank", "stalled_storage", "data_stalled", "group_order_deadlock")

Change = Callable[[Sequence[Finding]], dict[int, Finding | str | None]]


def _with(diagnosis: Diagnosis, changes: Iterable[Change]) -> Diagnosis:
    """Findings replaced or, for None or a sentence why, left out, by index over all verdicts."""
    for change in changes:
        flat = [finding for verdict in diagnosis.verdicts for finding in verdict.findings]
        changed = change(flat)
        verdicts, at = [], 0
        for verdict in diagnosis.verdicts:
            kept: list[Finding] = []
            why: list[str] = []
            for index in range(at, at + len(verdict.findings)):
                put = changed.get(index, flat[index])
                if isinstance(put, Finding):
                    kept.append(put)
                elif put is not None:
                    why.append(put)
            at += len(verdict.findings)
            verdicts.append(_changed(verdict, kept, why))
        diagnosis = Diagnosis(tuple(verdicts))
    return diagnosis


def _changed(verdict: Verdict, kept: list[Finding], why: list[str]) -> Verdict:
    if len(kept) == len(verdict.findings) and not why:
        return replace(verdict, findings=tuple(kept))
    checked = verdict.checked
    if not kept and checked is None and not verdict.not_enough:
        checked = "What stood out here is part of another finding."
    set_aside = (*verdict.set_aside, *dict.fromkeys(why))
    return replace(verdict, findings=tuple(kept), checked=checked, set_aside=set_aside)


def _of_one_place(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Episodes of one kind at one place as one finding, in place of the first of them."""
    groups = defaultdict[tuple[object, ...], list[int]](list)
    for index, finding in enumerate(findings):
        ranks = () if finding.hosts else tuple(sorted(p.rank for p in finding.culprits))
        groups[finding.kind, ranks, finding.stages, finding.hosts].append(index)
    changed: dict[int, Finding | str | None] = {}
    for members in groups.values():
        if len(members) > 1:
            changed |= dict.fromkeys(members)
            changed[members[0]] = joined([findings[index] for index in members])
    return changed


def joined(parts: Sequence[Finding]) -> Finding:
    """One finding of several episodes: the most urgent and costly part, with all their steps."""
    parts = sorted(parts, key=lambda part: part.first_step)
    main = min(parts, key=lambda part: (_SEVERITIES.index(part.severity), -_lost_ms(part)))
    spans = _united(span for part in parts for span in steps_of(part))
    listed = ", ".join(steps_text(*span) for span in spans[:_MOST_LISTED])
    listed += f" and {len(spans) - _MOST_LISTED} more" if len(spans) > _MOST_LISTED else ""
    cost = main.cost and _joined_cost(main.cost, parts, spans)
    text = f"{main.text} It came {len(spans)} times: {listed}." if len(spans) > 1 else main.text
    return replace(
        main,
        text=text,
        first_step=spans[0][0],
        last_step=max(last for _, last in spans),
        cost=cost,
        episodes=tuple(spans) if len(spans) > 1 else (),
    )


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """In order, those that meet as one."""
    united: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], last))
        else:
            united.append((first, last))
    return united


_MOST_LISTED = 5


def steps_of(finding: Finding) -> tuple[tuple[int, int], ...]:
    """First and last step of each of its episodes."""
    return finding.episodes or ((finding.first_step, finding.last_step),)


def _lost_ms(finding: Finding) -> float:
    return finding.cost.ms_per_step * finding.cost.num_steps if finding.cost else 0.0


def _joined_cost(cost: Cost, parts: Sequence[Finding], spans: Sequence[tuple[int, int]]) -> Cost:
    """The mean over the episodes of what the costliest part says of each."""
    costs = []
    for first, last in spans:
        of_span = [
            part
            for part in parts
            if part.cost and any(low <= last and first <= high for low, high in steps_of(part))
        ]
        main = max(of_span, key=_lost_ms, default=None)
        if main is not None and main.cost is not None:
            costs.append((last - first + 1, main.cost))
    total = sum(number for number, _ in costs)
    longer = sum(number * each.ms_per_step for number, each in costs) / total
    step = sum(number * each.step_ms for number, each in costs) / total
    num_steps = sum(last - first + 1 for first, last in spans)
    step_ms = round(step, 3)
    return replace(
        cost, ms_per_step=min(round(longer, 3), step_ms), step_ms=step_ms, num_steps=num_steps
    )


def _of_one_host(
    findings: Sequence[Finding], hosts: dict[int, str | None], still: Still
) -> dict[int, Finding | str | None]:
    """Single ranks of one kind that are nearly all of their host as one finding on the host, or as
    none where they are nearly all of the job. Two that are kept from their cores bring those of
    their host with them that stand still, too.
    """
    sizes = Counter(hosts.values())
    groups = defaultdict[tuple[str, str | None], list[int]](list)
    for index, finding in enumerate(findings):
        if len(finding.culprits) == 1 and not finding.stages:
            groups[finding.kind, hosts.get(finding.culprits[0].rank)].append(index)
    changed: dict[int, Finding | str | None] = {}
    for (kind, host), members in groups.items():
        main = max(members, key=lambda index: _lost_ms(findings[index]))
        together = [index for index in members if _overlap(findings[index], findings[main])]
        num = len(together)
        of_host = kind == _OF_HOSTS and host is not None and num > 1
        least = max(FEWEST_OF_HOST, sizes[host] * (_NEARLY_ALL if host is not None else _MANY))
        if not of_host and num < least:
            continue
        ranks = sorted(findings[index].culprits[0].rank for index in together)
        if num >= _NEARLY_ALL * len(hosts) or host is None:
            title = KIND_TITLES[kind]
            why = f"{num} of {len(hosts)} ranks ({named_ranks(ranks[:8])}) stand out by “{title}”: "
            changed |= dict.fromkeys(together, f"{why}no rank is at fault by itself.")
            continue
        changed |= dict.fromkeys(together)
        known = {place.rank: place for i in together for place in findings[i].culprits}
        if of_host:
            members = [rank for rank, its_host in hosts.items() if its_host == host]
            fellows = _standing_still(still, findings[main], members, ranks)
            known = {rank: known.get(rank, Place(rank, host)) for rank in fellows}
        whole = (str(host),) if not of_host or len(known) == sizes[host] else ()
        changed[main] = _on_host(findings[main], [findings[i] for i in together], known, whole)
    return changed


_SLOW_NETWORK_OF_HOSTS = ("slow_host", "many_hosts_slow")


def _waiting_for_hosts(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Who computes longer or starts late for waiting for other hosts, with a sentence: ranks that
    launch asynchronously wait in the middle of their compute or in no span.
    """
    return {
        index: f"{finding.title}: it may wait for {_hosts_named(slow)} meanwhile."
        for index, finding in enumerate(findings)
        for slow in findings
        if _may_wait(finding, slow)
    }


def _may_wait(finding: Finding, slow: Finding) -> bool:
    """Whether whole hosts may wait for the transfers of others; ranks that start late from the step
    on from which they are slow; or hosts that do so from when another is kept from its cores.
    """
    if _hosts(finding) & set(slow.hosts) or not _overlap(finding, slow):
        return False
    begin_together = abs(finding.first_step - slow.first_step) <= _NEAR_STEPS
    starts_late = finding.kind == "launch_skew" and begin_together
    if slow.kind in _SLOW_NETWORK_OF_HOSTS:
        is_slow_host = finding.hosts and finding.kind in ("slow_worker", "launch_skew")
        return bool(is_slow_host) or starts_late
    return slow.kind == _OF_HOSTS and bool(slow.hosts and finding.hosts) and starts_late


def _hosts_named(network: Finding) -> str:
    return ", ".join(network.hosts) or "other hosts"


def _of_held_hosts(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Ranks that come late on a host that is kept from its cores, and the same host as a slow one:
    they are part of that.
    """
    return {
        index: None
        for index, finding in enumerate(findings)
        for whole in findings
        if whole.kind == _OF_HOSTS and whole.hosts
        if _is_of_held(finding, whole)
        if _overlap(finding, whole)
    }


def _is_of_held(finding: Finding, whole: Finding) -> bool:
    if finding.hosts:
        return finding.kind == "slow_worker" and finding.hosts == whole.hosts
    is_late = finding.kind in (_OF_HOSTS, "launch_skew")
    return is_late and len(_hosts(finding)) > 0 and _hosts(finding) <= set(whole.hosts)


_HELD = ("host_contention", "stopped_process")
_BETWEEN = ("slow_link", "slow_dp_network", "link_flap")
_LINKS = ("slow_node_link", "slow_host", *_BETWEEN)


def _links_of_held_ranks(findings: Sequence[Finding]) -> dict[int, Finding | str | None]:
    """Slow links of a host whose ranks do not run, with a sentence: they cannot send."""
    held = [finding for finding in findings if finding.kind in _HELD]
    return {
        index: f"{finding.title}: {cause.title[0].lower()}{cause.title[1:]}."
        for index, finding in enumerate(findings)
        for cause in held
        if finding.kind in _LINKS and _ends_at(finding, cause) and _lies_in(finding, cause)
    }


def _lies_in(finding: Finding, cause: Finding) -> bool:
    """Whether most of its steps are those of the cause: what was slow before is not for it."""
    steps = set(_steps(finding))
    return 2 * len(steps & set(_steps(cause))) > len(steps)


def _ends_at(link: Finding, held: Finding) -> bool:
    """Whether it is a link of the hosts of `held`, or of one of them with another host."""
    ends, hosts = _hosts(link), _hosts(held)
    return bool(ends & hosts) if link.kind in _BETWEEN else ends == hosts


def _hosts(finding: Finding) -> set[str]:
    """Of what it names."""
    return set(finding.hosts) | {p.host for p in finding.culprits if p.host is not None}


def _standing_still(
    still: Still, main: Finding, members: Iterable[int], found: Sequence[int]
) -> list[int]:
    """Those found, and the members of their host that stand still for half as long or longer."""
    share = {rank: still(rank, main.first_step, main.last_step) for rank in members}
    least = statistics.median(share[rank] for rank in found) / 2
    return [rank for rank in share if rank in found or not share[rank] < least]


def _overlap(finding: Finding, other: Finding) -> bool:
    shared = min(finding.last_step, other.last_step) - max(finding.first_step, other.first_step)
    return 2 * (shared + 1) > min(
        finding.last_step - finding.first_step, other.last_step - other.first_step
    )


def _on_host(
    main: Finding, parts: Sequence[Finding], places: Mapping[int, Place], hosts: tuple[str, ...]
) -> Finding:
    """`hosts`: the host, none where only some of its ranks are meant."""
    host = str(parts[0].culprits[0].host)
    on_host = replace(
        main,
        title=f"{len(places)} ranks of host {host}: {main.title[0].lower()}{main.title[1:]}",
        culprits=tuple(places[rank] for rank in sorted(places)),
        victims=tuple(rank for rank in main.victims if rank not in places),
        hosts=hosts,
        first_step=min(part.first_step for part in parts),
        last_step=max(part.last_step for part in parts),
    )
    is_whole_and_slow = hosts and main.kind == "slow_worker"
    return _slow_host(on_host, main, host, len(places)) if is_whole_and_slow else on_host


def _slow_host(on_host: Finding, main: Finding, host: str, num: int) -> Finding:
    """With words on the host instead of the rank that costs most."""
    take, shared = ("take" if main.ongoing else "took"), "power, cooling, other jobs"
    return replace(
        on_host,
        title=f"Host {host} {'is' if main.ongoing else 'was'} slow",
        cause=f"All {num} ranks of host {host} {take} longer to compute the same work than ranks "
        "of other hosts.",
        next_step=f"Look at what the ranks of {host} share ({shared}). {main.next_step}",
    )


def unexplained(diagnosis: Diagnosis, name: str) -> Diagnosis:
    """Without findings of the detector of slower jobs whose steps others explain."""
    slower = [f for v in diagnosis.verdicts if v.detector == name for f in v.findings]
    own = {id(finding) for finding in slower}

    def change(flat: Sequence[Finding]) -> dict[int, Finding | str | None]:
        others = [finding for finding in flat if id(finding) not in own]
        kept = [finding for finding in slower if not _is_explained(finding, others)]
        changed: dict[int, Finding | str | None] = {}
        for index, finding in enumerate(flat):
            if id(finding) in own:
                changed |= {} if finding in kept else {index: None}
            elif any(_is_part(finding, whole) for whole in kept):
                changed[index] = f"{finding.text} That is part of what all steps are longer by."
        return changed

    return _with(diagnosis, [change])


_PART = 0.8


def _is_part(finding: Finding, whole: Finding) -> bool:
    """Whether it names nobody, and its steps are among those of the whole job's finding."""
    steps = set(_steps(finding))
    return not _names(finding) and len(steps & set(_steps(whole))) >= _PART * len(steps)


def _names(finding: Finding) -> bool:
    return bool(finding.culprits or finding.stages or finding.hosts)


def _is_explained(finding: Finding, others: Sequence[Finding]) -> bool:
    """Whether one that names somebody begins when it does and lasts as long or holds its few steps,
    or what others cost in half of these steps or more is EXPLAINED of what it costs.
    """
    own = set(_steps(finding))
    near = max(_NEAR_STEPS, len(own) // 10)
    is_short = len(own) < FEWEST_STEPS
    taken, covered = 0.0, set[int]()
    for other in others:
        shared = len(own & set(_steps(other)))
        begins = min(abs(first - finding.first_step) for first, _ in steps_of(other)) <= near
        lasts = shared >= _PART * len(own)
        if lasts and (begins or is_short) and _names(other):
            return True
        if lasts and begins and _may_be_all(other, finding, shared):
            return True
        if other.cost and shared:
            taken += other.cost.ms_per_step * shared
            covered |= own & set(_steps(other))
    return taken >= EXPLAINED * _lost_ms(finding) and 2 * len(covered) >= len(own)


def _may_be_all(other: Finding, finding: Finding, shared: int) -> bool:
    """Whether a slower operation or slower transfers of all ranks cost a fair part of it: what each
    takes longer adds up along a pipeline, which the estimate of their cost does not know.
    """
    if other.kind not in ("slow_op", "comm_regression") or other.cost is None:
        return False
    return other.cost.ms_per_step * shared >= _FAIR_PART * _lost_ms(finding)


_FAIR_PART = 1 / 3
_NEAR_STEPS = 2


def _steps(finding: Finding) -> Iterable[int]:
    return (step for first, last in steps_of(finding) for step in range(first, last + 1))


def listed(diagnosis: Diagnosis) -> Diagnosis:
    """With at most MOST_FINDINGS findings; the others in one sentence."""
    left_out = diagnosis.findings[MOST_FINDINGS:]
    if not left_out:
        return diagnosis
    gone = {id(finding) for finding in left_out}
    why = f"{len(left_out)} more findings of less urgency or cost are not listed: " + ", ".join(
        f"{KIND_TITLES[kind]} ({num})" for kind, num in Counter(f.kind for f in left_out).items()
    )
    verdicts = [
        replace(v, findings=tuple(f for f in v.findings if id(f) not in gone), checked=v.checked)
        if any(id(f) in gone for f in v.findings)
        else v
        for v in diagnosis.verdicts
        if any(id(f) not in gone for f in v.findings) or v.checked or v.not_enough
    ]
    cut = "The findings of the greatest urgency and cost are listed."
    verdicts.append(Verdict("findings", checked=cut, set_aside=(f"{why}.",), of_data=True))
    return Diagnosis(tuple(verdicts))
