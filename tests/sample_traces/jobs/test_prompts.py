"""Prompts of the real job over pipeline stages and shards, against the same job in one process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.run import open_run
from tests.forks import fork, succeeded

pytestmark = pytest.mark.torch

REQUEST = {"id": "p1", "text": "5 7 9 11 13", "tokens": 3, "layers": [0, 1, 2, 3], "step": 2}
OPTIONS = (
    "--device cpu --microbatches 2 --layers 4 --batch 2 --seq 16 --width 32 --heads 4 --steps 5"
)

COUNTED = {
    "forwards": "SELECT rank, name, count(*) n FROM spans WHERE kind = 'forward' GROUP BY ALL",
    "collectives": "SELECT rank, step, op, count(*) n FROM collectives GROUP BY ALL",
    "waits": "SELECT rank, step, name, count(*) n FROM spans WHERE group_id <> 0 GROUP BY ALL",
}
"""Rows of training, which a prompt adds nothing to."""
ALONE = """SELECT group_id, seq, list(c.rank) ranks, any_value(op) op
    FROM collectives c JOIN (SELECT DISTINCT attempt, group_id, ranks FROM groups) g
        USING (attempt, group_id)
    WHERE op NOT IN ('send', 'recv') GROUP BY group_id, seq, g.ranks HAVING count(*) < len(g.ranks)
"""
"""Collectives that not all members have under the same number."""


class Prompted:
    """A finished run: losses by step, what each rank was answered and showed."""

    def __init__(self, folder: Path, *options: str, allow: str = "1", ranks: int) -> None:
        folder.mkdir()
        (folder / "request.json").write_text(json.dumps(REQUEST))
        environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACE_HOOKS")}
        environ |= {"TRACE_HOOKS_RUN": "job", "OMP_NUM_THREADS": "1"}
        environ |= {"TRACE_HOOKS_ALLOW_CONTENT": allow}
        command = [
            "-m",
            "tests.sample_traces.prompted_job",
            str(folder),
            *OPTIONS.split(),
            *options,
        ]
        command += ["--nproc", str(ranks), "--runs", str(folder)]
        succeeded([fork(folder / "job", [*command, "--losses", str(folder / "losses")], environ)])
        lines = (folder / "losses").read_text().splitlines()
        self.losses = [(json.loads(x)["loss"], json.loads(x)["grad_norm"]) for x in lines]
        results = [json.loads((folder / f"results.{n}.json").read_text()) for n in range(ranks)]
        self.answers = [result[:2] for result in results]
        self.frames = [frame for result in results for frame in result[2:]]
        with open_run(folder / "job") as run:
            marks = run.sql("SELECT rank, step, kind, text FROM marks ORDER BY rank").to_pylist()
            self.recorded = {
                what: sorted(map(str, run.sql(sql).to_pylist())) for what, sql in COUNTED.items()
            }
            self.alone = run.sql(ALONE).to_pylist()
        assert not [mark for mark in marks if mark["kind"] == "hook_error"]
        self.marks = marks

    def tokens(self) -> dict[int, tuple[list[float], Any]]:
        """(probabilities, labels) by number; each is shown once."""
        found = [(f[4], (f[5], f[6])) for f in self.frames if f[0] == "prompt_token"]
        assert len(found) == len(dict(found))
        return dict(found)

    def attention(self, number: int) -> np.ndarray:
        """Of a token, layers x heads x tokens before it, from all ranks that have some."""
        rows = {
            (layer, begin + at): row
            for what, layer, _, begin, one, values, _ in self.frames
            if (what, one) == ("prompt_attention", number)
            for at, row in enumerate(values)
        }
        assert sorted(rows) == [(layer, head) for layer in range(4) for head in range(4)]
        return np.array([rows[key] for key in sorted(rows)])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Prompted:
    folder = tmp_path_factory.mktemp("alone") / "run"
    return Prompted(folder, *["--pp", "1", "--dp", "1", "--tp", "1"], ranks=1)


def check(prompted_run: Prompted, without: Prompted, alone: Prompted, ranks: int) -> None:
    """The answer is that of one process, on all ranks after the same step, and changes nothing."""
    assert all("allow_content" in answers[0] for answers in without.answers)
    assert without.marks == []
    assert without.frames == []
    assert prompted_run.losses == without.losses
    untouched(prompted_run, without)
    assert [(m["rank"], m["step"], m["kind"]) for m in prompted_run.marks] == [
        (rank, 2, "prompt") for rank in range(ranks)
    ]
    assert all("3 tokens; training waited" in mark["text"] for mark in prompted_run.marks)
    tokens, others = prompted_run.tokens(), alone.tokens()
    assert sorted(tokens) == [-2, -1, 0, 1, 2]
    assert tokens[-2][1] == [""]
    for number in (-1, 0, 1, 2):
        assert tokens[number][1][0] == others[number][1][0]
        np.testing.assert_allclose(tokens[number][0], others[number][0], rtol=2e-3)
    for number in range(3):
        attention = prompted_run.attention(number)
        assert attention.shape == (16, 5 + number)
        np.testing.assert_allclose(attention, alone.attention(number), rtol=2e-3, atol=1e-4)


def untouched(prompted_run: Prompted, without: Prompted) -> None:
    """Nothing that the prompt ran counts as training's, and what ranks count agrees afterwards."""
    assert prompted_run.recorded == without.recorded
    assert all(len(rows) > 1 for rows in prompted_run.recorded.values())
    assert prompted_run.alone == without.alone == []


@pytest.mark.long
def test_stages_and_shards_answer_as_one_and_training_is_bitwise_the_same(
    tmp_path: Path, alone: Prompted
) -> None:
    """Two stages on each rank, five tokens over two tensor-parallel ranks."""
    options = "--pp 2 --dp 1 --tp 2 --sequence-parallel --schedule interleaved"
    prompted_run = Prompted(tmp_path / "with", *options.split(), ranks=4)
    without = Prompted(tmp_path / "without", *options.split(), allow="0", ranks=4)
    check(prompted_run, without, alone, 4)


@pytest.mark.long
def test_fsdp_replicas_take_part_and_training_is_bitwise_the_same(tmp_path: Path) -> None:
    options = ["--pp", "1", "--dp", "2", "--tp", "1"]
    prompted_run = Prompted(tmp_path / "with", *options, ranks=2)
    without = Prompted(tmp_path / "without", *options, allow="0", ranks=2)
    assert prompted_run.losses == without.losses
    untouched(prompted_run, without)
    assert sorted(prompted_run.tokens()) == [-2, -1, 0, 1, 2]
    assert prompted_run.attention(2).shape == (16, 7)
