"""`rankscope init`: the lines for the framework that a script uses, without running it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.cli import EXIT_USER_ERROR, main
from app.commands.init import FRAMEWORKS
from tests.app.commands.json_output import json_of
from trace_hooks.integrations import FRAMEWORKS as CALLBACKS

SCRIPTS = {
    "hf": "from transformers import Trainer\ntrainer = Trainer(model)\n",
    "hf: TRL": "import trl\nfrom accelerate import PartialState\ntrl.DPOTrainer(model)\n",
    "hf: derived": "from trl import SFTTrainer as S\nclass Own(S): ...\nOwn(model)\n",
    "lightning": "import lightning as L\nL.Trainer(devices=2)\n",
    "lightning: old name": "import pytorch_lightning as pl\npl.Trainer(devices=2)\n",
    "accelerate": "from accelerate import Accelerator\nfrom transformers import AutoModel\n"
    "Accelerator()\nAutoModel.from_pretrained('x')\n",
    "deepspeed": "import deepspeed, torch\nengine, *_ = deepspeed.initialize(model=model)\n",
    "megatron": "from megatron.core import parallel_state\nimport torch\n",
    "torchtitan": "from torchtitan.train import main\nimport torch\n",
    "torch": "import torch.distributed as dist\ndist.init_process_group()\n",
}


def script(folder: Path, text: str | bytes, name: str = "train me.py") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("case", SCRIPTS)
def test_each_framework_is_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    text = SCRIPTS[case]
    (found,) = json_of(capsys, "init", script(tmp_path, text))["frameworks"]
    assert found["framework"] == case.partition(":")[0]
    assert found["lines"][0] == "import trace_hooks as th"
    if found["line"] is not None:
        called, _, _ = text.splitlines()[found["line"] - 1].rpartition("(")
        assert f" {called.split()[-1].split('.')[-1]}(..., " in found["lines"][1]


def test_the_lines_name_callbacks_that_exist() -> None:
    assert FRAMEWORKS.keys() - {"torch"} == CALLBACKS.keys()
    for name, framework in FRAMEWORKS.items():
        assert f"th.{name}." in framework.line or name == "torch"


def test_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(tmp_path, SCRIPTS["hf"])
    assert main(["init", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Add two lines, the second in line 2, where the trainer is made:" in out
    assert "    trainer = Trainer(..., callbacks=[th.hf.Callback()])\n" in out
    assert f"    torchrun --nproc-per-node auto -m trace_hooks '{path}'\n" in out


def test_a_script_that_starts_its_ranks_lets_them_inherit_the_hooks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = json_of(capsys, "init", script(tmp_path, SCRIPTS["lightning"], "a.py"))["frameworks"]
    assert found["command"] == f"python {tmp_path}/a.py"
    assert [command.split()[0] for command in found["unchanged"]] == [
        "python",
        "TRACE_HOOKS_AUTO=1",
    ]


def test_of_several_frameworks_all_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, SCRIPTS["hf"] + SCRIPTS["deepspeed"])
    assert main(["init", str(path)]) == 0
    out, _ = capsys.readouterr()
    assert "uses Hugging Face's Trainer and DeepSpeed: add the lines of the one" in out
    assert out.count("Add two lines") == 2


def test_the_script_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script(tmp_path, "import torch\nraise SystemExit(9)\n")
    assert main(["init", str(path)]) == 0


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"import os\n", "a.py", "imports neither torch nor a framework that trains"),
        (b"import torch\nx = = 1\n", "a.py", "is not valid Python in line 2"),
        (b"\x00\x01", "a.py", "is not valid Python"),
        (b"\xff\xfe", "a.py", "is not valid Python"),
        (b"(" * 100_000, "a.py", "is not valid Python"),
        (b"-" * 100_000 + b"1", "a.py", "is not valid Python"),
        (b'{"cells": []}', "a.ipynb", "is a notebook"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    name: str,
    sentence: str,
) -> None:
    assert main(["init", str(script(tmp_path, content, name))]) == EXIT_USER_ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert sentence in err


def test_what_is_no_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    large = tmp_path / "large.py"
    large.touch()
    os.truncate(large, 10_000_001)
    for path, why in (
        (tmp_path / "none.py", "No such file"),
        (tmp_path, "is not a file"),
        (tmp_path / "pipe.py", "is not a file"),
        (large, "is larger than 10,000,000 bytes"),
    ):
        assert main(["init", str(path)]) == EXIT_USER_ERROR
        assert why in capsys.readouterr().err
