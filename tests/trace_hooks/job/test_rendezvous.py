"""Run, attempt and rank: alone, by the launcher's variables, and in real torchrun restarts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from ingest.run import open_run
from ingest.summary import info
from tests.forks import fork, succeeded
from tests.trace_hooks.processes import begin, environment, rank_files, rows, run
from tests.waiting import wait_until
from trace_hooks.job import process_info, rendezvous
from trace_hooks.job.identity import Shared
from trace_hooks.job.rendezvous import GROUP_WAIT_S, IdentityFinder
from trace_hooks.protocol.job_claims import DIGEST_FILE, SECRET_FILE, digest_of
from trace_hooks.schema import publish_json, rank_file_name
from trace_hooks.settings import Settings, read_settings

CLOCK = ("domain", 0, 0)


def settings(folder: Path, **environ: str) -> Settings:
    return read_settings({"TRACE_HOOKS_FOLDER": str(folder), **environ})


def test_a_single_process_is_rank_0_at_once(tmp_path: Path) -> None:
    code = """
import time
import trace_hooks as th
from trace_hooks.job import rendezvous
rendezvous.JOIN_WAIT_S = 1e6
th.start()
time.sleep(600)
"""
    process = begin(tmp_path, code)
    wait_until(lambda: list(tmp_path.glob("runs/*/run.json")))
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_rank_0_takes_the_next_free_attempt_and_keeps_t0(tmp_path: Path) -> None:
    folder = tmp_path / "night"
    (folder / "ranks").mkdir(parents=True)
    publish_json({"created_ns": 12345}, folder / "run.json")
    for attempt in (0, 1):
        publish_json({}, folder / "ranks" / rank_file_name(attempt, 3))
    environ = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}
    identity = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, environ).poll()
    assert identity is not None
    assert (identity.shared.run, identity.shared.attempt, identity.shared.created_ns) == (
        "night",
        2,
        12345,
    )


def test_a_process_taken_for_a_job_of_its_own_keeps_its_run_as_rank_0_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lightning's first process has no RANK, and joins its group seconds later."""
    finder = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, {})
    alone = finder.poll(stepping=True)
    assert alone is not None
    assert finder.revised(alone) is alone

    def join(rank: int) -> None:
        group = SimpleNamespace(get_rank=lambda: rank, get_world_size=lambda: 2)
        for module in (process_info, rendezvous):
            monkeypatch.setattr(module, "distributed", lambda: group)

    join(rank=0)
    revised = finder.revised(alone)
    assert (revised.place.rank, revised.place.world_size) == (0, 2)
    assert revised.shared is alone.shared
    join(rank=1)
    assert finder.revised(alone) is alone
    assert "is rank 1 of 2" in caplog.text


def test_processes_that_may_inherit_are_no_rank_until_they_join(tmp_path: Path) -> None:
    environ = {"TRACE_HOOKS_AUTO": "1"}
    finder = IdentityFinder(settings(tmp_path), CLOCK, 0, environ)
    assert finder.poll(last_call=True) is None
    assert finder.poll(stepping=True) is not None


def test_only_under_an_agent_that_restarts_do_its_variables_name_the_attempt(
    tmp_path: Path,
) -> None:
    """Launchers of other kinds do not give all ranks the same ones."""
    ranks = [{"MASTER_PORT": "1", "WORLD_SIZE": "2"}, {}]
    assert len({IdentityFinder(settings(tmp_path), CLOCK, 0, e).prefix for e in ranks}) == 1
    restarts = [
        {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": str(n)} for n in range(2)
    ]
    assert len({IdentityFinder(settings(tmp_path), CLOCK, 0, e).prefix for e in restarts}) == 2


def test_starts_of_one_run_at_the_same_instant_are_two_attempts(tmp_path: Path) -> None:
    finders = [
        IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, {}) for _ in range(8)
    ]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda finder: finder.poll(stepping=True), finders))
    assert sorted(identity.shared.attempt for identity in found if identity) == list(range(8))


SERVER = {"TRACE_HOOKS_SERVER": "ws://login:8050", "TRACE_HOOKS_TOKEN": "secret-secret"}


def shared(folder: Path, **environ: str) -> Shared:
    found = IdentityFinder(settings(folder, TRACE_HOOKS_RUN="night", **environ), CLOCK, 0, {})
    identity = found.poll(stepping=True)
    assert identity is not None
    return identity.shared


def test_a_run_has_one_secret_over_its_restarts_and_each_start_an_id(tmp_path: Path) -> None:
    first, second = shared(tmp_path, **SERVER), shared(tmp_path, **SERVER)
    assert (first.attempt, second.attempt) == (0, 1)
    assert first.start != second.start
    assert len(first.secret) >= 32
    assert first.secret == second.secret != shared(tmp_path / "other", **SERVER).secret
    assert first.secret not in repr(first)
    kept, digest = tmp_path / "night" / SECRET_FILE, tmp_path / "night" / DIGEST_FILE
    assert kept.stat().st_mode & 0o777 == 0o600
    assert (kept.read_text().strip(), digest.read_text().strip()) == (
        first.secret,
        digest_of(first.secret),
    )
    started = [(tmp_path / "night" / "attempts" / f"{n:04d}").read_text().strip() for n in (0, 1)]
    assert started == [first.start, second.start]


def test_without_a_server_there_is_no_secret(tmp_path: Path) -> None:
    assert shared(tmp_path).secret == ""
    assert not (tmp_path / "night" / SECRET_FILE).exists()


def test_ranks_of_one_folder_that_never_saw_a_group_share_secret_and_start(tmp_path: Path) -> None:
    found = []
    for rank in ("0", "1", "2"):
        environ = {"RANK": rank, "WORLD_SIZE": "3", "LOCAL_RANK": rank}
        given = settings(tmp_path, TRACE_HOOKS_RUN="night", **SERVER)
        identity = IdentityFinder(given, CLOCK, 0, environ).poll(last_call=True)
        assert identity is not None
        found.append((identity.shared.attempt, identity.shared.start, identity.shared.secret))
    assert len(set(found)) == 1


def test_who_writes_a_runs_folder_decides_who_belongs_to_it(tmp_path: Path) -> None:
    """Whatever a server has noted there of a hello that came before."""
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / DIGEST_FILE).write_text(digest_of("of a stranger"))
    own = shared(tmp_path, **SERVER).secret
    assert (tmp_path / "night" / DIGEST_FILE).read_text().strip() == digest_of(own)


def test_a_folder_that_cannot_be_written_has_a_secret_for_this_start(tmp_path: Path) -> None:
    (tmp_path / "night").write_text("a file, not a folder")
    first, second = shared(tmp_path, **SERVER), shared(tmp_path, **SERVER)
    assert len({first.secret, second.secret}) == len({first.start, second.start}) == 2


def test_a_run_folder_that_cannot_be_written_has_an_attempt_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "night").write_text("a file, not a folder")
    identity = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, {}).poll(True)
    assert identity is not None
    assert identity.shared.attempt == 0


def test_a_rank_that_does_not_train_yet_waits_longer_for_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2"}
    finder = IdentityFinder(settings(tmp_path), CLOCK, 0, environ)
    begun_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: begun_s + GROUP_WAIT_S + 10)
    assert finder.poll(stepping=False) is None
    assert finder.poll(stepping=True) is not None


@pytest.mark.torch
def test_the_file_of_a_group_goes_when_the_job_lets_go_of_it(tmp_path: Path) -> None:
    """Or the job's next group, made with the same file, would wait for ranks that are gone."""
    from torch import distributed

    file, key = tmp_path / "store", "trace_hooks/a key"
    environ = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    finder = IdentityFinder(settings(tmp_path), CLOCK, 0, environ)
    for _ in range(2):
        distributed.init_process_group("gloo", init_method=f"file://{file}", rank=0, world_size=1)
        finder.own_store().set(key, "ours")
        assert finder.own_store().get(key) == b"ours"
        distributed.destroy_process_group()
        assert not file.exists()
        assert finder.own_store() is None


# One group after the other, as a scheduler starts a job again on fewer hosts.
SHRINKING = """
import os, sys
import torch, torch.distributed as dist
import trace_hooks as th

torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tracer = th.start(layout={"dp": world})
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=world)
for number in range(2):
    with tracer.step(number):
        dist.all_reduce(torch.ones(8))
dist.barrier()
tracer.stop()
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_restart_with_a_smaller_world_keeps_the_size_of_each_attempt(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SHRINKING)
    for start, world in enumerate((3, 2)):
        job = environment(
            tmp_path,
            TRACE_HOOKS_RUN="night",
            TRACE_HOOKS_SOURCES="collectives",
            WORLD_SIZE=str(world),
            MASTER_PORT=str(start),
        )
        ranks = [
            fork(
                tmp_path / f"{start}-{rank}",
                [str(script), str(tmp_path / "store")],
                job | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(world)
        ]
        succeeded(ranks)
    files = [(f["attempt"], f["rank"], f["world_size"], f["layout"]) for f in rank_files(tmp_path)]
    sizes = [(0, 3), (0, 3), (0, 3), (1, 2), (1, 2)]
    assert [(attempt, world) for attempt, _, world, _ in files] == sizes
    assert [layout["axes"] for *_, layout in files] == [{"dp": world} for _, world in sizes]
    run = open_run(tmp_path / "runs" / "night")
    assert run.attempts == [0, 1]
    table_rows = run.sql("SELECT attempt, rank, step FROM steps ORDER BY ALL").to_pylist()
    assert [tuple(row.values()) for row in table_rows] == [
        (attempt, rank, step)
        for attempt, world in ((0, 3), (1, 2))
        for rank in range(world)
        for step in range(2)
    ]
    summary = info(run)
    assert (summary["attempts"], summary["world_size"], summary["num_ranks"]) == (2, 2, 2)
    per_attempt = run.ask("run_summary").to_pylist()
    assert [(row["attempt"], row["world_size"]) for row in per_attempt] == [(0, 3), (1, 2)]


def test_another_rank_waits_and_at_the_end_guesses_with_a_warning(tmp_path: Path) -> None:
    environ = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2"}
    finder = IdentityFinder(settings(tmp_path, TRACE_HOOKS_RUN="night"), CLOCK, 0, environ)
    assert finder.poll(stepping=True) is None
    identity = finder.poll(last_call=True)
    assert identity is not None
    assert (identity.shared.run, identity.shared.attempt, identity.place.rank) == ("night", 0, 2)
    assert "the job made no process group" in identity.guesses[0]


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(tmp_path, "import trace_hooks as th\nth.start()\n")[0] == 0
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(set(names)) == 2


# The agent's store outlives a restart and gloo would find addresses of dead ranks in it, so the job
# takes a prefix per restart.
RESTARTED = """
import os, sys, time
import torch, torch.distributed as dist
import trace_hooks as th

torch.set_num_threads(1)
tracer = th.start(layout={"dp": int(os.environ["WORLD_SIZE"])})
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
dist.init_process_group(
    "gloo", store=dist.PrefixStore(restart, store), rank=rank, world_size=world
)
for number in range(4):
    with tracer.step(number):
        dist.all_reduce(torch.ones(8))
        time.sleep(0.3)
    if number == 2 and restart == "0" and rank == 1:
        os._exit(9)
tracer.stop()
dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.torch
def test_a_torchrun_restart_is_a_second_attempt_of_the_same_run(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(RESTARTED)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "--max-restarts",
        "1",
        "--monitor-interval",
        "0.2",
        str(script),
    ]
    process = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:]
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["run"] == folder.name
    files = rank_files(tmp_path)
    assert [(f["attempt"], f["rank"]) for f in files] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(f["hooks"]["guesses"] == [] and f["hooks"]["errors"] == {} for f in files)
    ends = [f["end"]["status"] if f["end"] else None for f in files]
    assert ends[1:] == [None, "finished", "finished"]  # rank 1 was gone without a word
    assert ends[0] in ("failed", "stopped")
    steps = {(r["attempt"], r["rank"], r["step"]) for r in rows(tmp_path, "steps")}
    assert {(1, rank, number) for rank in range(2) for number in range(4)} <= steps
    assert {row["method"] for row in rows(tmp_path, "clocks")} == {"same_host"}
    lost = [row for row in rows(tmp_path, "marks") if row["kind"] == "lost"]
    assert [(row["attempt"], row["rank"]) for row in lost] == [(0, 1)]
