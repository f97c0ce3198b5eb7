"""Which phase a stack is in, and what is said of it: with real frames of real calls."""

import io
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn

from trace_hooks.recording.dumped_stack import StackDump
from trace_hooks.sources.startup.stack_phases import phase_of, place_of

LIBRARY = "/usr/lib/python3/site-packages"


@pytest.mark.parametrize(
    ("file", "function", "phase"),
    [
        ("torch/distributed/distributed_c10d.py", "init_process_group", "rendezvous"),
        ("torch/distributed/distributed_c10d.py", "new_group", "groups"),
        ("torch/distributed/distributed_c10d.py", "barrier", "communication"),
        ("torch/distributed/device_mesh.py", "init_device_mesh", "groups"),
        ("torch/serialization.py", "load", "restore"),
        ("torch/serialization.py", "save", None),
        ("torch/_dynamo/convert_frame.py", "_compile", "compile"),
        ("torch/utils/data/dataloader.py", "__next__", "data"),
        ("torch/nn/modules/linear.py", "__init__", "model"),
        ("torch/nn/modules/linear.py", "forward", None),
        ("torch/cuda/__init__.py", "_lazy_init", "device"),
        ("megatron/training/checkpointing.py", "load_checkpoint", "restore"),
        ("megatron/training/checkpointing.py", "save_checkpoint", None),
        ("train.py", "already", None),
        ("torch/_dynamo/convert_frame.py", "<module>", None),
        ("torch/distributed/fsdp/__init__.py", "<module>", None),
    ],
)
def test_a_call_stands_for_a_phase(file, function, phase):
    assert phase_of(f"{LIBRARY}/{file}", function) == phase


def place_in(function):
    """What place_of says of a thread that is inside `function(pause)`, which calls `pause`."""
    inside, go_on = threading.Event(), threading.Event()

    def pause(*_):
        inside.set()
        assert go_on.wait(20)

    thread = threading.Thread(target=function, args=(pause,))
    thread.start()
    assert inside.wait(20)
    dump = StackDump()
    place = place_of(dump.stack_of(thread.ident))
    dump.close()
    go_on.set()
    thread.join()
    return place


def test_the_making_of_a_model_is_named_with_the_line_of_the_job(monkeypatch):
    def make_model(pause):
        monkeypatch.setattr(nn.Linear, "reset_parameters", pause)
        nn.Linear(2, 2)

    place = place_in(make_model)
    assert place.phase == "model"
    assert place.what.startswith("__init__ (linear.py) at test_stack_phases.py:")


def test_a_read_of_a_checkpoint_is_named_whatever_its_file_does():
    class Slow(io.BytesIO):
        def readinto(self, buffer):
            pauses[0]()
            return super().readinto(buffer)

        def read(self, size=-1):
            pauses[0]()
            return super().read(size)

    def start_again(pause):
        pauses.append(pause)
        torch.load(file)  # noqa: TID251 - weights only, saved above

    pauses = []
    file = Slow()
    torch.save(torch.zeros(3), file)
    file.seek(0)
    place = place_in(start_again)
    assert place.phase == "restore"
    assert place.what.startswith("load (serialization.py) at test_stack_phases.py:")


C10D = torch.distributed.distributed_c10d


@pytest.fixture
def alone():
    """A process group of this process."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_collective_decides_whoever_calls_it():
    def load_checkpoint(pause):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(C10D, "_rank_not_in_group", pause)
            torch.distributed.barrier()

    place = place_in(load_checkpoint)
    assert place.phase == "communication"
    assert place.what.startswith(
        "pause (test_stack_phases.py) inside barrier (distributed_c10d.py)"
    )


@pytest.mark.usefixtures("alone")
def test_the_barrier_of_new_group_is_the_making_of_a_group():
    def make_groups(pause):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(C10D.logger, "debug", pause)
            C10D._store_based_barrier(0, C10D._get_default_store(), "g", 1, timedelta(seconds=9))

    def new_group(pause):
        patched.setattr(C10D, "_new_process_group_helper", lambda *_, **__: make_groups(pause))
        with suppress(TypeError):  # nothing was made
            torch.distributed.new_group([0])

    with pytest.MonkeyPatch.context() as patched:
        assert place_in(new_group).phase == "groups"


def test_other_code_is_named_by_its_function():
    def read_the_corpus(pause):
        pause()

    place = place_in(read_the_corpus)
    assert place == ("other", "pause (test_stack_phases.py)")


def test_an_import_is_named_by_its_module_and_the_line_that_imports(tmp_path):
    package = tmp_path / "slowlib"
    package.mkdir()
    (package / "__init__.py").write_text("from slowlib import inner\n")
    (package / "inner.py").write_text(
        "from threading import get_ident\n"
        "from trace_hooks.recording.dumped_stack import StackDump\n"
        "from trace_hooks.sources.startup.stack_phases import place_of\n"
        "print(tuple(place_of(StackDump().stack_of(get_ident()))))\n"
    )
    script = tmp_path / "job.py"
    script.write_text("import sys\n\nimport slowlib\n")
    root = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={"PYTHONPATH": root}
    )
    assert done.stdout == "('imports', 'slowlib/__init__.py at job.py:3')\n", done.stderr
