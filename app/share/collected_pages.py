"""Answers of the server that a shared file needs for Machines, Data, Experts, What-if, Efficiency
and Selftest.

assets/lib/offline_app.mjs gives them to the same views that the live pages have. Keys are what
these views ask for: a route of the run and its parameters, without attempt and steps. Bytes are
packed by app.web.arrays.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from app.analysis.machine_samples import has_samples, telling_of
from app.runs.hub import Hub
from app.share.collected_whatif import whatif_answers
from app.share.shown_view import ShownView
from app.view_state import peak_of
from app.views.data_loading import data_loading_of
from app.views.efficiency import goodput, operations
from app.views.efficiency.mfu import (
    Asked,
    Change,
    as_json,
    change_between,
    decline_of,
    efficiency_of,
    without_steps,
)
from app.views.efficiency.startup import startup_of
from app.views.experts.answers import expert_answer, loads_answer, steps_answer
from app.views.experts.loads import NO_STEPS
from app.views.experts.ranks import expert_ranks_of
from app.views.machines.changes import host_of_rank, ranks_of_devices
from app.views.machines.host_map import HostMap, host_map, port_map
from app.views.machines.series import host_series
from app.views.machines.telling_changes import changes_answer
from app.views.selftest import SOURCE, TRAFFIC, Matrix, matrix_of, selftest_of
from app.web.arrays import pack_arrays
from ingest.errors import UserError
from ingest.stopping import Stop

Answers = dict[str, Any]
PORTS = ("nic_transmitted_bytes_total", "net_transmitted_bytes_total")
"""The first of them that was recorded is in the file."""

_MOST_CHANGES = 60
_MOST_NAMES = 128
"""Ranks or hosts of a matrix of pairs."""


def page_answers(hub: Hub, shown: ShownView, most_hosts: int, stop: Stop | None) -> Answers:
    """What the file has of these pages; raises UserError. `most_hosts`: of the map."""
    view = shown.view
    chosen = view.steps, view.against, view.rank, view.expert, view.replay, view.pipeline
    key = ("shared pages", view.page, shown.attempt, view.peak, view.bandwidth, *chosen)
    found = hub.cache.get(
        shown.run_name, key, lambda run, stop: _pages(hub, shown, stop), stop=stop
    )
    return {
        key: _packed_map(shown, value, most_hosts) if isinstance(value, HostMap) else value
        for key, value in found.items()
    }


def _pages(hub: Hub, shown: ShownView, stop: Stop | None) -> Answers:
    """Answers, maps of hosts still whole."""
    found: Answers = {}
    if shown.view.page == "selftest" or shown.run.info["source"] == SOURCE:
        found |= _selftest(shown, stop)
    if shown.view.page == "data":
        loading = data_loading_of(shown.run, shown.attempt, shown.view.steps, stop)
        found["data"] = asdict(loading)
    if shown.view.page == "experts":
        found |= _experts(shown, stop)
    if shown.view.page == "what-if":
        found |= whatif_answers(hub, shown, stop)
    if shown.view.page == "efficiency":
        found |= _mfu(shown, stop)
        found["mfu/operations"] = _operations(shown, stop)
        found["startup"] = asdict(startup_of(shown.run, shown.attempt, stop))
        found["goodput"] = goodput.as_json(goodput.goodput_of(shown.run, stop))
    if not has_samples(hub, shown.run_name):
        return found
    if shown.view.page == "machines":
        return found | _machines(shown, stop)
    is_newest = shown.view.attempt is None and shown.attempt == shown.run.newest_attempt
    asked = None if is_newest else shown.attempt  # as the page asks, which may have an answer
    return found | {"machines/telling": telling_of(hub, shown.run_name, asked, stop)}


def _experts(shown: ShownView, stop: Stop | None) -> Answers:
    run, attempt, steps = shown.run, shown.attempt, shown.steps or NO_STEPS
    answers: Answers = {
        "experts": pack_arrays(*loads_answer(run, attempt, steps, "", stop)),
        "experts/steps": pack_arrays(*steps_answer(run, attempt, steps, stop)),
        "experts/ranks": asdict(expert_ranks_of(run, attempt, steps, stop)),
    }
    if shown.view.expert is not None:
        names = zip(("layer", "expert", "router"), shown.view.expert, strict=False)
        asked = "&".join(f"{name}={number}" for name, number in names)
        with suppress(UserError):  # an expert that the model does not have
            found = expert_answer(run, attempt, steps, shown.view.expert, stop)
            answers[f"experts/expert?{asked}"] = pack_arrays(*found)
    return answers


def _mfu(shown: ShownView, stop: Stop | None) -> Answers:
    view = shown.view
    asked = Asked(shown.run, shown.attempt, peak_of(view.peak or ""), stop)
    fall = None if shown.steps is None else efficiency_of(asked, shown.steps)
    try:
        windows = None if view.steps is None or view.against is None else (view.against, view.steps)
        change = decline_of(asked) if windows is None else change_between(asked, *windows)
    except UserError as error:  # a window of few steps
        text = str(error)
        change = Change(f"{text[0].upper()}{text[1:]}.")
    return {
        "mfu": {"waterfall": as_json(fall), "why": "" if fall else without_steps(shown.run)},
        "mfu/change": asdict(change),
    }


def _operations(shown: ShownView, stop: Stop | None) -> dict[str, Any]:
    view = shown.view
    given = peak_of(view.peak or ""), peak_of(view.bandwidth or "")
    asked = operations.Asked(shown.run, shown.attempt, *given, stop)
    return operations.as_json(operations.roofline_of(asked, view.steps))


def _machines(shown: ShownView, stop: Stop | None) -> Answers:
    run, attempt, steps = shown.run, shown.attempt, shown.view.steps
    found = host_map(run, attempt, steps, stop)
    answers: Answers = {
        "machines": found,
        "machines/changes": changes_answer(run, attempt, stop, _MOST_CHANGES),
    }
    if found.hosts:
        host = _host(shown, found)
        answers[f"machines/host?host={host}"] = host_series(run, attempt, host, None, stop)
    names = {column.name for column in found.columns}
    for metric in [metric for metric in PORTS if metric in names][:1]:
        answers[f"machines/ports?metric={metric}"] = port_map(run, attempt, metric, steps, stop)
    return answers


def _packed_map(shown: ShownView, found: HostMap, most_hosts: int) -> bytes:
    kept = found.furthest(most_hosts)
    ranks = ranks_of_devices(shown.run, shown.attempt)
    of_hosts = [ranks.get((host, "host"), []) for host in kept.hosts]
    return pack_arrays(kept.arrays(), kept.meta() | {"ranks": of_hosts})


def _host(shown: ShownView, found: HostMap) -> str:
    """The host whose metrics over time are in the file: the chosen one, else the furthest."""
    rank = shown.view.rank
    chosen = "" if rank is None else host_of_rank(shown.run, shown.attempt, rank)
    return chosen if chosen in found.hosts else found.furthest(1).hosts[0]


def _selftest(shown: ShownView, stop: Stop | None) -> Answers:
    run, attempt = shown.run, shown.attempt
    measured = selftest_of(run, attempt, stop)
    answers: Answers = {"selftest": asdict(measured)}
    pairs = [(one["test"], one["num_bytes"]) for one in measured.tests if one["is_of_pairs"]]
    wanted = [(*pair, by) for pair in reversed(pairs) for by in ("host", "rank")]
    for test, num_bytes, by in [*wanted, *([(TRAFFIC, 0, "host")] if measured.has_traffic else [])]:
        try:
            matrix = matrix_of(run, attempt, test, num_bytes, by, stop)
        except UserError:  # too many ranks for a matrix: by host there may be one
            continue
        if len(matrix.names) <= _MOST_NAMES:
            answers[f"selftest/matrix?test={test}&bytes={num_bytes}&by={by}"] = packed_matrix(
                matrix
            )
            break
    return answers


def packed_matrix(found: Matrix) -> bytes:
    """As the route selftest/matrix gives it."""
    meta = {
        "names": list(found.names),
        "usual": found.usual,
        "unit": found.unit,
        "texts": found.texts,
    }
    return pack_arrays({"value": found.value_NN.ravel()}, meta)
