"""Pipeline actions and FSDP2 in two real processes; the job is pipeline_job.py."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import schedules, stage

from tests.forks import fork, succeeded
from tests.trace_hooks.processes import run
from tests.trace_hooks.tiny_models import tracing
from trace_hooks.sources.training import pipeline

JOB = str(Path(__file__).with_name("pipeline_job.py"))
MICROBATCHES, STEPS = 4, 2
STAGES = {"1F1B": ([0], [1]), "ZBV": ([0, 3], [1, 2])}
"""Global stage indices of rank 0 and rank 1."""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    """What both ranks of the job report."""
    folder = tmp_path_factory.mktemp("pipeline")
    files = [folder / f"{rank}.json" for rank in range(2)]
    succeeded(
        [
            fork(folder / f"rank{rank}", [JOB, str(rank), f"{folder}/store", str(file)], os.environ)
            for rank, file in enumerate(files)
        ]
    )
    return [json.loads(file.read_text()) for file in files]


def spans(ranks, rank: int, job: str, **wanted) -> list[dict]:
    own_spans = ranks[rank]["jobs"][job]["spans"]
    return [span for span in own_spans if all(span[key] == wanted[key] for key in wanted)]


@pytest.mark.torch
def test_no_hook_failed(ranks):
    assert [rank["errors"] for rank in ranks] == [{}, {}]


@pytest.mark.torch
@pytest.mark.parametrize("job", ["1F1B", "ZBV", "watch first", "shard first"])
def test_losses_are_bitwise_equal(ranks, job: str):
    for rank in ranks:
        assert rank["jobs"][job]["losses"] == rank["jobs"][job]["plain"]
    assert any(rank["jobs"][job]["losses"] for rank in ranks)


@pytest.mark.torch
@pytest.mark.parametrize("job", ["1F1B", "ZBV"])
@pytest.mark.parametrize("rank", [0, 1])
def test_every_micro_batch_has_its_actions_on_every_stage(ranks, job: str, rank: int):
    counts = Counter(
        (span["name"], span["chunk"], span["microbatch"])
        for span in spans(ranks, rank, job)
        if span["name"] in ("F", "B", "I", "W")
    )
    assert {chunk for _, chunk, _ in counts} == set(STAGES[job][rank])
    for chunk in STAGES[job][rank]:
        for microbatch in range(MICROBATCHES):
            forward, full, split, weight = (
                counts[name, chunk, microbatch] for name in ("F", "B", "I", "W")
            )
            assert forward == STEPS
            assert full + split == STEPS
            assert weight == split
    if job == "1F1B":
        assert not any(name in ("I", "W") for name, _, _ in counts)
    else:
        assert any(name == "W" for name, _, _ in counts)


@pytest.mark.torch
@pytest.mark.parametrize("job", ["1F1B", "ZBV"])
def test_the_last_stage_computes_the_losses(ranks, job: str):
    last = max(chunk for stages in STAGES[job] for chunk in stages)
    for rank in (0, 1):
        losses = spans(ranks, rank, job, name="loss")
        assert len(losses) == (STEPS * MICROBATCHES if last in STAGES[job][rank] else 0)
        assert {span["chunk"] for span in losses} <= {last}


@pytest.mark.torch
@pytest.mark.parametrize("job", ["1F1B", "ZBV"])
@pytest.mark.parametrize("rank", [0, 1])
def test_modules_lie_inside_the_action_of_their_micro_batch(ranks, job: str, rank: int):
    own_spans = [s for s in spans(ranks, rank, job) if s["microbatch"] >= 0]
    actions = {"F", "B", "I", "W", "loss"}
    around = [s for s in own_spans if s["name"] in actions]
    inside = [s for s in own_spans if s["name"] not in actions]
    ends = {0, max(chunk for stages in STAGES[job] for chunk in stages)}
    # a block, on the ends of the pipeline another part, and the whole module of the stage
    parts = sum(3 if chunk in ends else 2 for chunk in STAGES[job][rank])
    forwards = [s for s in inside if s["kind"] == "forward" and "." not in s["name"]]
    assert len(forwards) == parts * MICROBATCHES * STEPS
    for span in inside:
        assert any(
            action["begin_ns"] <= span["begin_ns"]
            and span["end_ns"] <= action["end_ns"]
            and action["depth"] < span["depth"]
            and (action["microbatch"], action["chunk"]) == (span["microbatch"], span["chunk"])
            for action in around
        ), span


@pytest.mark.torch
@pytest.mark.parametrize("job", ["watch first", "shard first"])
def test_fsdp_shows_every_block(ranks, job: str):
    for rank in (0, 1):
        for kind in ("forward", "backward"):
            counts = Counter(s["name"] for s in spans(ranks, rank, job, kind=kind))
            assert counts["layers.0"] == counts["layers.1"] == STEPS
            assert counts["embedding"] == counts["head"] == STEPS
        assert len(spans(ranks, rank, job, kind="optimizer")) == STEPS


def test_the_names_of_this_torch_are_those_we_wrap():
    for name in pipeline.STAGE_METHODS:
        assert callable(getattr(stage._PipelineStageBase, name))
    for name in pipeline.SCHEDULE_METHODS:
        assert callable(getattr(schedules._PipelineSchedule, name))
    for name in pipeline.SCHEDULE_FUNCTIONS:
        assert callable(getattr(schedules, name))
    for name in pipeline.FSDP_METHODS:
        assert callable(getattr(FSDPModule, name))
    for name in pipeline.UNSHARD_METHODS:
        assert callable(getattr(fully_shard_module()._UnshardHandleImpl, name))


def fully_shard_module():
    return sys.modules[pipeline.FULLY_SHARD]


@pytest.mark.torch
def test_issuing_messages_is_time_of_the_host_between_the_actions(ranks):
    """ZBV issues each message by itself: one span a send or receive, with no micro-batch."""
    for rank in (0, 1):
        issued = spans(ranks, rank, "ZBV", name="issue messages")
        assert {(s["kind"], s["microbatch"], s["depth"]) for s in issued} == {("host", -1, 0)}
        # stage 1 -> 2 and back is on one rank: of the two borders that are left, each micro-batch
        # crosses both forward and backward, and each rank sends or receives every time
        assert len(issued) == STEPS * MICROBATCHES * 2 * 2


def test_a_torch_without_a_name_is_logged_once_and_left_alone(monkeypatch, caplog):
    monkeypatch.delattr(stage._PipelineStageBase, "perform_reduce_grad")
    with tracing("pipeline"):
        assert not hasattr(stage._PipelineStageBase, "perform_reduce_grad")
    assert [r.getMessage() for r in caplog.records if "pipelining" in r.getMessage()] == [
        "trace_hooks: this torch has no pipelining method perform_reduce_grad; it is not recorded"
    ]


def test_uninstall_restores_the_methods():
    owners = {
        stage._PipelineStageBase: pipeline.STAGE_METHODS,
        schedules._PipelineSchedule: pipeline.SCHEDULE_METHODS,
        schedules: pipeline.SCHEDULE_FUNCTIONS,
        FSDPModule: pipeline.FSDP_METHODS,
        fully_shard_module()._UnshardHandleImpl: pipeline.UNSHARD_METHODS,
    }

    def methods() -> list:
        return [vars(owner)[name] for owner, names in owners.items() for name in names]

    before = methods()
    with tracing("pipeline"):
        assert all(now is not then for now, then in zip(methods(), before, strict=True))
    assert all(now is then for now, then in zip(methods(), before, strict=True))


IMPORTS = """
import sys, time
import trace_hooks
tracer = trace_hooks.start()
with tracer.step(): pass
print("torch.distributed.pipelining" in sys.modules)
from torch.distributed.pipelining.stage import _PipelineStageBase
with tracer.step():
    print(hasattr(_PipelineStageBase.forward_one_chunk, "__wrapped__"))
tracer.stop()
print(hasattr(_PipelineStageBase.forward_one_chunk, "__wrapped__"))
"""


@pytest.mark.long
def test_the_package_is_hooked_once_the_job_imports_it(tmp_path: Path):
    """To import it takes a second and 70 MB, which a job without a pipeline must not pay."""
    code, out, err = run(tmp_path, IMPORTS, TRACE_HOOKS_SOURCES="pipeline")
    assert (code, out.split()) == (0, ["False", "True", "False"]), err
