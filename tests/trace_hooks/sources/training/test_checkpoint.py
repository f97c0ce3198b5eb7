"""Saves of checkpoints become spans; the savers are restored."""

import io

import pytest
import torch
import torch.distributed.checkpoint as distributed_checkpoint
from torch import nn

from tests.trace_hooks.tiny_models import tracing


def test_a_save_is_a_span_and_a_phase():
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
