"""Garbage collection, checkpoints and memory."""

import gc
import io
import os

import pytest
import torch
import torch.distributed.checkpoint as distributed_checkpoint
from torch import nn

from tests.trace_hooks.tiny_models import tracing
from trace_hooks.sources.training import memory


def test_full_collections_are_recorded_and_short_young_ones_are_not():
    with tracing("gc") as traced:
        gc.collect()
        for _ in range(50):
            gc.collect(0)
        names = [span.name for span in traced.spans("gc")]
        assert names.count("gc generation 2") >= 1
        assert names.count("gc generation 0") < 50
        full = next(span for span in traced.spans() if span.name == "gc generation 2")
        assert full.row.end_ns > full.row.begin_ns
        assert full.row.cpu_ns > 0


def test_a_collection_lies_inside_the_span_it_interrupts():
    with tracing("gc") as traced:
        outer = traced.recorder.open()
        gc.collect()
        traced.recorder.close(traced.recorder.site("work", "host"), outer)
        assert {s.name: s.row.depth for s in traced.spans() if s.name != "gc generation 0"} == {
            "work": 0,
            "gc generation 2": 1,
        }


def test_gc_callbacks_are_as_before():
    before = list(gc.callbacks)
    with tracing("gc"):
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before


def test_a_save_is_a_span_and_the_phase_says_so():
    class Phase:
        def __reduce__(self):
            seen.append(traced.rank_state.phase)
            return str, ()

    seen: list[str] = []
    with tracing("checkpoint") as traced:
        traced.rank_state.phase = "step"
        torch.save(Phase(), io.BytesIO())
        assert seen == ["checkpoint"]
        assert traced.rank_state.phase == "step"
        assert [(s.kind, s.name) for s in traced.spans()] == [("checkpoint", "torch.save")]


def test_a_save_that_fails_passes_its_error_and_ends_the_phase():
    with tracing("checkpoint") as traced:
        with pytest.raises(Exception, match="pickle"):
            torch.save(lambda: None, io.BytesIO())
        assert traced.rank_state.phase == "init"
        assert len(traced.spans()) == 1


@pytest.mark.filterwarnings("ignore")  # torch's remarks on saving without process groups
def test_a_distributed_save_is_one_span(tmp_path):
    with tracing("checkpoint") as traced:
        model = nn.Linear(2, 2)
        distributed_checkpoint.save(model.state_dict(), checkpoint_id=tmp_path / "step1")
        assert [s.name for s in traced.spans()] == ["distributed.save"]
        assert (tmp_path / "step1" / ".metadata").exists()


def test_savers_are_restored():
    from torch.distributed.checkpoint import state_dict_saver

    def savers():
        owners = (distributed_checkpoint, state_dict_saver)
        return [torch.save, *(getattr(o, n) for o in owners for n in ("save", "async_save"))]

    before = savers()
    with tracing("checkpoint"):
        assert all(now is not then for now, then in zip(savers(), before, strict=True))
    assert savers() == before


def test_memory_counters_at_the_end_of_a_step():
    with tracing("memory") as traced:
        traced.rank_state.step = 4
        traced.source("memory").step_end()
        (row,) = traced.rows("memory")
        assert row["step"] == 4
        assert row["rss"] == pytest.approx(memory.resident_bytes(), rel=0.2)
        if not torch.cuda.is_initialized():
            assert [row[c] for c in ("allocated", "reserved", "peak", "retries")] == [-1] * 4


def test_resident_bytes_without_proc(monkeypatch, tmp_path):
    here = memory.resident_bytes()
    monkeypatch.setattr(memory, "_STATM", tmp_path / "nothing")
    assert memory.resident_bytes() >= here * 0.5 > os.sysconf("SC_PAGE_SIZE")
