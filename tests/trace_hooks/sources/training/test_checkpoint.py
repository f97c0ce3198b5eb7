"""Saves of checkpoints become spans, saves and reads rows; the functions are restored."""

import io
import threading
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter

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


def test_reads_and_saves_are_rows_with_the_size_of_the_file(tmp_path):
    path = tmp_path / "state.pt"
    with tracing("checkpoint") as traced:
        torch.save(torch.zeros(1000), path)
        with path.open("rb") as file:
            assert read(file).shape == (1000,)
        rows = [(r["action"], r["name"], r["num_bytes"], r["state"]) for r in saved(traced)]
    size = path.stat().st_size
    assert rows == [
        ("save", "torch.save", size, "completed"),
        ("read", "torch.load", size, "completed"),
    ]


def test_a_read_that_fails_passes_its_error_and_is_a_row(tmp_path):
    content = saved_bytes()
    with tracing("checkpoint") as traced:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "missing.pt")
        assert [(r["action"], r["state"]) for r in saved(traced)] == [("read", "failed")]
        read(io.BytesIO(content))
        assert len(saved(traced)) == 2


@pytest.mark.filterwarnings("ignore")  # torch's remarks on saving without process groups
def test_a_distributed_read_has_the_bytes_of_the_ranks_tensors(tmp_path):
    model = nn.Linear(2, 2)
    distributed_checkpoint.save(model.state_dict(), checkpoint_id=tmp_path)
    with tracing("checkpoint") as traced:
        distributed_checkpoint.load(model.state_dict(), checkpoint_id=tmp_path)
        (row,) = saved(traced)
    assert (row["action"], row["name"], row["num_bytes"]) == ("read", "distributed.load", 6 * 4)


@pytest.mark.filterwarnings("ignore")
def test_the_background_half_of_an_asynchronous_save_is_a_row(tmp_path):
    from torch.distributed.checkpoint import FileSystemWriter

    class Held(FileSystemWriter):
        def finish(self, *args, **kwargs):
            assert go_on.wait(20)
            return super().finish(*args, **kwargs)

    go_on = threading.Event()
    with tracing("checkpoint") as traced:
        state, writer = nn.Linear(2, 2).state_dict(), Held(tmp_path)
        future = distributed_checkpoint.async_save(state, storage_writer=writer, no_dist=True)
        assert [r["action"] for r in saved(traced)] == ["save"]
        go_on.set()
        future.result(20)
        actions = [(r["action"], r["name"]) for r in saved(traced)]
    name = "distributed.async_save"
    assert actions == [("save", name), ("background", name)]


def test_a_save_on_another_thread_is_in_the_background():
    with tracing("checkpoint") as traced:
        thread = threading.Thread(target=saved_bytes)
        thread.start()
        thread.join()
        assert [(r["action"], r["name"]) for r in saved(traced)] == [("background", "torch.save")]
        assert traced.spans() == []


def test_what_a_data_loader_reads_is_no_checkpoint():
    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return read(io.BytesIO(content))

    content = saved_bytes()
    with tracing("checkpoint") as traced:
        assert len(list(torch.utils.data.DataLoader(Files()))) == 3
        assert saved(traced) == []


def saved(traced):
    return traced.rows("checkpoints")


def read(file):
    return torch.load(file)  # noqa: TID251 - the function under test, weights only


def saved_bytes():
    buffer = io.BytesIO()
    torch.save(torch.zeros(1), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "function", ["save", "load", "distributed.checkpoint.save", "distributed.checkpoint.load"]
)
def test_a_job_can_pickle_the_functions(function):
    with tracing("checkpoint"):
        assert ForkingPickler.dumps(attrgetter(function)(torch))  # raises where it is not found


def test_the_functions_are_restored():
    from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

    def functions():
        of_dcp = distributed_checkpoint
        owners = [(torch, "save"), (torch, "load"), (of_dcp, "save"), (of_dcp, "async_save")]
        owners += [(of_dcp, "load"), (state_dict_loader, "load"), (state_dict_saver, "save")]
        return [getattr(owner, name) for owner, name in owners]

    before = functions()
    with tracing("checkpoint"):
        assert all(now is not then for now, then in zip(functions(), before, strict=True))
    assert functions() == before
