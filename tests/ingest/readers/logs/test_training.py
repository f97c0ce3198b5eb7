"""Steps in logs of training frameworks; lines as the frameworks print them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.analysis.diagnosis import diagnose_run
from ingest.run import open_run
from tests.folders import FRAMEWORK_FILES
from tests.ingest.readers.flight_recorder.dumps import dump, entry, write
from tests.ingest.readers.logs.log_files import write_logs
from tests.reader_results import Imported

S = 10**9
T_NS = 1_767_601_820 * S
"""2026-01-05 08:30:20 UTC"""
MEGATRON = """using world size: 8, data-parallel size: 1, context-parallel size: 1, tensor-\
model-parallel size: 4, pipeline-model-parallel size: 2
  seq_length ...................................... 512
 [2026-01-05 08:30:12] iteration       10/    1000 | consumed samples:          160 | elapsed time \
per iteration (ms): 1150.5 | learning rate: 0.000000E+00 | global batch size:    16 | loss scale: \
65536.0 | number of skipped iterations:  10 | number of nan iterations:   0 |
 [2026-01-05 08:30:20] iteration       20/    1000 | consumed samples:          320 | elapsed time \
per iteration (ms): 800.5 | throughput per GPU (TFLOP/s/GPU): 120.5 | learning rate: \
4.000000E-05 | global batch size:    16 | lm loss: 1.050000E+01 | loss scale: 32768.0 | grad \
norm: 3.25 | num zeros: 64.0 | number of skipped iterations:   6 | number of nan iterations:   0 |
"""
TIMERS = """times across ranks (ms):
  forward-backward:
     rank  0: 700.00
     rank  1: 701.00
  forward-compute:
     rank  0: 200.50
     rank  1: 250.50
  optimizer:
     rank  0: 30.00
     rank  1: 30.10
saving checkpoint
  optimizer:
     rank  0: 99.00
"""
TITAN = """[rank0]:[titan] 2026-01-05 08:34:24,804 - root - INFO - step:  1  loss: 12.5000  \
grad_norm:  1.7500  memory: 40.00GiB(50.00%)  tps: 1,700  tflops: 30.00  mfu: 3.00%
[rank0]:[titan] 2026-01-05 08:34:38,804 - root - INFO - \x1b[31mstep: 11  \x1b[32mloss: 11.2500  \
\x1b[38;2;180;60;0mgrad_norm:  2.2500  \x1b[38;2;54;234;195mmemory: 50.00GiB(62.50%)  \
\x1b[34mtps: 11,000  \x1b[36mtflops: 200.00  \x1b[35mmfu: 20.25%\x1b[39m
"""
DEEPSPEED = """\
[2026-01-05 08:30:17,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=10, \
lr=[0.0001, 0.0002], mom=[(0.9, 0.999)]
[2026-01-05 08:30:17,936] [INFO] [timer.py:215:stop] epoch=0/micro_step=10/global_step=10, \
RunningAvgSamplesPerSec=220.5, CurrSamplesPerSec=222.5, \
MemAllocated=0.1GB, MaxMemAllocated=1.5GB
[2026-01-05 08:30:18,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=17, \
lr=[5e-05], mom=[(0.9, 0.999)]
"""


def steps_of(run: Imported, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of steps by rank and step."""
    return sorted(run.rows("steps", "rank", "step", *columns), key=lambda row: row[:2])


def imported(folder: Path, runs: Path, **logs: str) -> Imported:
    """An import of logs by their names without .log."""
    files = {f"{name}.log": text for name, text in logs.items()}
    return Imported(write_logs(folder, files), into=runs)


def test_lines_of_megatron(folder: Path, runs: Path) -> None:
    run = imported(folder, runs, train=MEGATRON)
    assert run.info["source"] == "logs"
    ms = 10**6  # ten steps of 800.5 ms end 5 ms into the second of the line
    assert steps_of(run, "start_ns", "dur_ns", "loss", "grad_norm", "lr", "tokens") == [
        (0, 10, T_NS - 8 * S - 1150_500_000, 1150_500_000, None, None, 0.0, 16 * 512),
        (0, 20, T_NS + 5 * ms - 800_500_000, 800_500_000, 10.5, 3.25, 4e-5, 16 * 512),
    ]
    ((flops,),) = [row for row in run.rows("steps", "flops") if row[0] is not None]
    assert flops == pytest.approx(120.5e12 * 800.5 * ms / 1e9 * 8)
    assert run.ranks[0]["world_size"] == 8
    assert any("up to 10 lie between two" in guess for guess in run.guesses)
    assert any("are shown as those of rank 0" in guess for guess in run.guesses)
    assert run.table("log_lines").num_rows == 4


def test_timers_of_megatron_name_the_slow_rank(folder: Path, runs: Path) -> None:
    run = imported(folder, runs, train=MEGATRON + TIMERS)
    spans = run.rows("spans", "rank", "step", "name", "kind", "dur_ns")
    assert sorted(spans) == [
        (0, 20, "forward-compute", "forward", 200_500_000),
        (0, 20, "optimizer", "optimizer", 30_000_000),
        (1, 20, "forward-compute", "forward", 250_500_000),
        (1, 20, "optimizer", "optimizer", 30_100_000),
    ]
    assert steps_of(run, "dur_ns")[1:] == [(0, 20, 800_500_000), (1, 20, 800_500_000)]
    assert any("not when: they are laid" in guess for guess in run.guesses)


def test_times_of_whole_seconds_follow_the_lengths_of_steps(folder: Path, runs: Path) -> None:
    """The third line comes 20 s later: what happened in between is no part of a step."""
    line = (
        " [2026-01-05 08:30:{:02}] iteration {}/ 9 | elapsed time per iteration (ms): {} | a: 2 |\n"
    )
    lines = ((10, 1, 700.0), (11, 2, 700.0), (31, 3, 700.0), (31, 4, 700.0), (32, 5, 200.0))
    run = imported(folder, runs, train="".join(line.format(*each) for each in lines))
    found = steps_of(run, "start_ns", "dur_ns")
    ends_ms = [(start_ns + dur_ns - T_NS) // 10**6 for _, _, start_ns, dur_ns in found]
    assert ends_ms == [-9_700, -9_000, 11_100, 11_800, 12_000]


@pytest.mark.parametrize(
    ("line", "axes"),
    [
        (
            "using world size: 16, data-parallel size: 2, context-parallel size: 2, hierarchical "
            "context-parallel sizes: Nonetensor-model-parallel size: 2, encoder-tensor-model-"
            "parallel size: 0, pipeline-model-parallel size: 2",
            {"pp": 2, "dp": 2, "cp": 2, "tp": 2},
        ),
        (
            "using world size: 8, data-parallel-size: 4, tensor-model-parallel size: 2, "
            "pipeline-model-parallel size: 1 ",
            {"dp": 4, "tp": 2},
        ),
        ("using world size: 8, data-parallel-size: 4, tensor-model-parallel size: 2", None),
        (
            "using world size: 9, data-parallel-size: 4, tensor-model-parallel size: 2, "
            "pipeline-model-parallel size: 1",
            None,
        ),
        (
            "[titan] Building device mesh with parallelism: pp=2, dp_replicate=2, dp_shard=4, "
            "cp=1, tp=2, ep=1",
            {"pp": 2, "dp_replicate": 2, "dp_shard": 4, "tp": 2},
        ),
        (
            "using world size: 8, data-parallel-size: 4, tensor-model-parallel size: 2, "
            "pipeline-model-parallel size: 1\n  use_tp_pp_dp_mapping ............ True",
            None,
        ),
    ],
)
def test_the_layout_is_that_of_the_sizes_in_the_log(
    folder: Path, runs: Path, line: str, axes: dict[str, int] | None
) -> None:
    text = MEGATRON.partition("\n")[2]
    run = imported(folder, runs, train=f"{line}\n{text}")
    layout = run.ranks[0]["layout"]
    assert (layout and layout["axes"]) == axes
    assert any("has the sizes that the log names" in g for g in run.guesses) == bool(axes)


def test_timers_of_a_real_megatron_core(folder: Path, runs: Path) -> None:
    timers = (FRAMEWORK_FILES / "megatron_timers.log").read_text()
    run = imported(folder, runs, train=MEGATRON + timers)
    assert sorted(run.rows("spans", "rank", "name", "dur_ns")) == [
        (0, "forward-compute", 11_970_000),
        (0, "optimizer", 10_170_000),
        (1, "forward-compute", 24_000_000),
        (1, "optimizer", 20_180_000),
    ]


def test_a_real_log_of_deepspeed(runs: Path) -> None:
    run = Imported(FRAMEWORK_FILES / "deepspeed.log", into=runs)
    assert [row[:3] for row in steps_of(run, "lr")] == [(0, n, 0.001) for n in (0, 2, 4, 6, 8)]
    assert run.info["clock"] == "absolute"
    assert run.ranks[0]["world_size"] == 2
    assert all(dur_ns > 0 for _, step, dur_ns in steps_of(run, "dur_ns") if step)


def test_lines_of_torchtitan_with_colours(folder: Path, runs: Path) -> None:
    mesh = "[titan] 2026-01-05 08:34:00,000 - root - INFO - Building device mesh with parallelism: "
    mesh += "pp=1, dp_replicate=1, dp_shard=4, cp=1, tp=2, ep=1\n"
    run = imported(folder, runs, rank_0=mesh + TITAN)
    assert steps_of(run, "loss", "grad_norm", "dur_ns") == [
        (0, 1, 12.5, 1.75, 0),
        (0, 11, 11.2500, 2.2500, 1_400_000_000),
    ]
    assert run.rows("steps", "tokens", "flops")[1] == (
        pytest.approx(11000 * 1.4),
        pytest.approx(200.00e12 * 1.4 * 8),
    )
    assert any("the time since the line before" in guess for guess in run.guesses)


def test_lines_of_deepspeed_on_one_step_are_one_row(folder: Path, runs: Path) -> None:
    text = DEEPSPEED + "steps: 30 loss: 2.5 iter time (s): 0.25 samples/sec: 64.0 \n"
    run = imported(folder, runs, rank_0=text)
    assert steps_of(run, "lr", "loss", "dur_ns") == [
        (0, 10, 1e-4, None, 0),
        (0, 20, 5e-5, None, 100_000_000),
        (0, 30, None, 2.5, 250_000_000),
    ]
    assert run.info["clock"] == "per_step_relative"  # the last line has no time


def test_a_stated_length_counts_more_than_the_time_between_lines(folder: Path, runs: Path) -> None:
    line = (
        "[2026-01-05 08:30:{:02},000] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, "
    )
    text = (
        line.format(10, 1) + "lr=[0.1], mom=[0.9]\n" + line.format(20, 2) + "lr=[0.2], mom=[0.9]\n"
    )
    text += "steps: 2 loss: 2.5 iter time (s): 0.250 samples/sec: 64.000\n"
    run = imported(folder, runs, rank_0=text)
    assert steps_of(run, "dur_ns", "loss", "lr") == [
        (0, 1, 0, None, 0.1),
        (0, 2, 250_000_000, 2.5, 0.2),
    ]


def test_lines_of_the_trainer_get_the_step_of_the_bar_behind_them(folder: Path, runs: Path) -> None:
    line = "{'loss': %s, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}"
    bar = "\r %d%%|█   | %d/100 [00:05<08:15,  2.00it/s]"
    text = bar % (8, 8) + "\r       \r" + line % 2.5 + "\n" + bar % (10, 10)
    text += "\r    \r" + line % 2.25 + "\n" + bar % (20, 20) + "\n"
    text += "\r 50%|██  | 4/8 [00:05<08:15,  2.00it/s]\n" + bar % (100, 100) + "\n"
    run = imported(folder, runs, train=text)
    assert steps_of(run, "loss", "grad_norm", "lr") == [
        (0, 10, 2.5, 1.25, 5e-5),
        (0, 20, 2.25, 1.25, 5e-5),
    ]


def test_lines_of_megatron_with_seconds_and_without_colons(folder: Path, runs: Path) -> None:
    text = """\
[default7]: iteration     2542/    9765 | consumed samples:      5206016 | elapsed time per \
iteration (s): 23.50 | learning rate: 2.5E-06 | global batch size:  2048 | lm loss: 1.25E+00 | \
grad norm: 0.540 | number of nan iterations:   0 | samples per second: 86.451 | TFLOPs: 161.87
[default7]: iteration     2543/    9765 | elapsed time per iteration (ms): 23000.0 | learning rate \
2.0E-06 | lm loss 1.125E+00 | loss scale 16384.0 |
"""
    run = imported(folder, runs, train=text)
    assert steps_of(run, "dur_ns", "loss", "lr", "grad_norm") == [
        (0, 2542, 23_500_000_000, 1.25, 2.5e-6, 0.54),
        (0, 2543, 23_000_000_000, 1.125, 2e-6, None),
    ]


@pytest.mark.parametrize("named", ["'step': 1500", "'global_step/max_steps': '1500/9000'"])
def test_lines_of_the_trainer_may_name_their_step(folder: Path, runs: Path, named: str) -> None:
    run = imported(folder, runs, train=f"{{'loss': 5.5, 'epoch': 0.16, {named}}}\n")
    assert steps_of(run, "loss") == [(0, 1500, 5.5)]


def test_a_bar_whose_earlier_states_are_gone_tells_no_step(folder: Path, runs: Path) -> None:
    """Copied from a terminal: the state behind a line is that of the next line."""
    bar, line = " {0}%|█   | {0}/100 [00:05<08:15,  2.00it/s]", "{{'loss': {}, 'epoch': 0.1}}\n"
    text = "".join(bar.format(n) + line.format(n / 4) for n in (10, 20, 30))
    run = imported(folder, runs, train=text + "\n" + bar.format(40) + "\n")
    assert run.table("steps").num_rows == 0


def test_lines_of_losses_that_were_held_back_get_no_step(folder: Path, runs: Path) -> None:
    lines = "".join(f"{{'loss': {loss}, 'epoch': 0.1}}\n" for loss in (2.5, 2.25, "nan"))
    bar = " 90%|█   | 90/100 [00:05<08:15,  2.00it/s]\n"
    run = imported(folder, runs, train=bar + lines)
    assert run.table("steps").num_rows == 0
    assert any("3 lines of losses name no step" in guess for guess in run.guesses)


def test_a_step_before_the_last_one_is_a_restart(folder: Path, runs: Path) -> None:
    again = MEGATRON.replace("05 08:30", "05 09:30").replace("lm loss: 1.05", "lm loss: 9.05")
    run = imported(folder, runs, train=MEGATRON + again)
    assert steps_of(run, "loss") == [(0, 10, None), (0, 20, 90.5)]
    assert run.rows("marks", "kind", "step", "text") == [
        ("restart", 10, "restarted: the log goes on at step 10 after step 20")
    ]
    assert any("begin again 1 times" in guess for guess in run.guesses)


def test_logs_of_two_attempts_are_one_training(folder: Path, runs: Path) -> None:
    again = TITAN.replace("08:34", "09:34").replace("step: 11", "step:  9")
    logs = {"attempt_1/0/stdout.log": again, "attempt_0/0/stdout.log": TITAN}
    run = Imported(write_logs(folder, logs), into=runs)
    assert [row[:2] for row in steps_of(run)] == [(0, 1), (0, 9), (0, 11)]
    assert run.rows("marks", "step") == [(1,)]


def test_steps_of_logs_next_to_a_trace_are_left_out(folder: Path, runs: Path) -> None:
    write(folder, 0, dump(entry(0)))
    run = imported(folder, runs, rank_0=TITAN)
    assert run.info["source"] == "flight_recorder"
    assert run.table("steps").num_rows == 0
    assert any("2 steps in the logs" in guess for guess in run.guesses)


@pytest.mark.parametrize(
    "line",
    [
        "iteration 3/10 | elapsed time per iteration (ms): 1e400 | lm loss: 2 |",
        "iteration 999999999999999999/9 | elapsed time per iteration (ms): 5 |",
        "step: 12  loss: abc",
        "[Rank 0] step=x, skipped=0, lr=[1]",
        "my step: 3  loss: of interest",
        "what is the elapsed time per iteration (ms)?",
    ],
)
def test_lines_that_only_look_so_are_lines(folder: Path, runs: Path, line: str) -> None:
    run = imported(folder, runs, rank_0=f"2026-01-01 00:00:00 {line}\n")
    assert run.problems == []
    assert run.rows("steps", "loss", "dur_ns") in ([], [(2.0, 0)])
    assert run.table("log_lines").num_rows == 1


def test_a_run_of_logged_steps_can_be_judged(folder: Path, runs: Path) -> None:
    line = "[rank0]:[titan] 2025-10-30 20:{:02}:00,000 - root - INFO - step: {}  loss: {}  x: 1\n"
    text = "".join(line.format(n, n, 4 - n / 10 if n < 20 else "nan") for n in range(1, 30))
    with open_run(imported(folder, runs, rank_0=text).folder) as run:
        found = diagnose_run(run)
    assert {finding.kind for finding in found.findings} == {"nonfinite"}
