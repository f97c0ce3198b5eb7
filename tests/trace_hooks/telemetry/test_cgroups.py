"""Control groups of both versions, in trees as kernels lay them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace_hooks.telemetry.made_trees import tree, values
from trace_hooks.telemetry.cgroups import Cgroup
from trace_hooks.telemetry.reading import SourceError

PSI = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0 avg60=0 avg300=0 total={}\n"
VERSION_2 = {
    "cgroup.procs": "1\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\nsystem_usec 1\nnr_periods 10\n"
    "nr_throttled 4\nthrottled_usec 700000\n",
    "cpu.max": "150000 100000\n",
    "memory.current": "1000\n",
    "memory.max": "max\n",
    "memory.events": "low 0\nhigh 2\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n",
    "cpu.pressure": PSI.format(1_000_000, 0),
    "memory.pressure": PSI.format(0, 250_000),
    "io.pressure": PSI.format(0, 500_000),
    "io.stat": "254:0 rbytes=100 wbytes=20 rios=1 wios=1\n8:0 rbytes=1 wbytes=2 rios=1 wios=1\n",
}
VERSION_1 = {
    "cpu/job/cgroup.procs": "1\n",
    "cpu/cgroup.procs": "1\n",
    "cpu/job/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 700000000\n",
    "cpu/job/cpu.cfs_period_us": "50000\n",
    "cpu/job/cpu.cfs_quota_us": "75000\n",
    "cpuacct/cgroup.procs": "1\n",
    "cpuacct/job/cpuacct.usage": "2500000000\n",
    "memory/cgroup.procs": "1\n",
    "memory/job/memory.usage_in_bytes": "1000\n",
    "memory/job/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/job/memory.failcnt": "3\n",
    "memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "unified/cgroup.procs": "1\n",
    "unified/cpu.stat": "usage_usec 99\n",
}


def of(root: Path, cgroup: str, files: dict[str, str]) -> Cgroup:
    tree(root / "fs", files)
    tree(root / "proc", {"5/cgroup": cgroup})
    return Cgroup(lambda: 5, root / "proc", root / "fs")


def test_a_kernel_that_counts_no_pressure_leaves_the_other_figures(tmp_path: Path) -> None:
    source = of(tmp_path, "0::/\n", VERSION_2)
    for kind in ("cpu", "memory", "io"):
        path = tmp_path / "fs" / f"{kind}.pressure"
        path.unlink()
        path.mkdir()  # it is there, but reading it fails, as EOPNOTSUPP does
    readings = list(source.read())
    unreadable = {r.metric for r in readings if r.reason == "Is a directory"}
    assert unreadable == {
        "cgroup_pressure_cpu_some_seconds_total",
        "cgroup_pressure_memory_full_seconds_total",
        "cgroup_pressure_io_full_seconds_total",
    }
    found = {r.metric: r.value for r in readings if not r.reason}
    assert found["cgroup_cpu_throttled_seconds_total"] == 0.7
    assert found["cgroup_written_bytes_total"] == 22


def test_version_1_of_a_kernel_without_quotas(tmp_path: Path) -> None:
    files = {name: text for name, text in VERSION_1.items() if ".cfs_" not in name}
    cgroup = "4:cpu,cpuacct:/job\n9:memory:/job\n0::/\n"
    found = {m: value for (_, m), value in values(of(tmp_path, cgroup, files).read()).items()}
    assert found["cgroup_cpu_seconds_total"] == 2.5
    assert "cgroup_cpu_limit_cores" not in found


def test_version_2(tmp_path: Path) -> None:
    files = {"cgroup.procs": "", **{f"job/{name}": text for name, text in VERSION_2.items()}}
    source = of(tmp_path, "0::/job\n", files)
    found = {metric: value for (_, metric), value in values(source.read()).items()}
    assert found == {
        "cgroup_cpu_seconds_total": 2.5,
        "cgroup_cpu_throttled_periods_total": 4,
        "cgroup_cpu_throttled_seconds_total": 0.7,
        "cgroup_cpu_limit_cores": 1.5,
        "cgroup_memory_used_bytes": 1000,
        "cgroup_memory_limit_hits_total": 3,
        "cgroup_oom_kills_total": 1,
        "cgroup_pressure_cpu_some_seconds_total": 1.0,
        "cgroup_pressure_memory_full_seconds_total": 0.25,
        "cgroup_pressure_io_full_seconds_total": 0.5,
        "cgroup_read_bytes_total": 101,
        "cgroup_written_bytes_total": 22,
    }
    assert source.scope == "container"
    rarely = {"cgroup_cpu_limit_cores", "cgroup_oom_kills_total", "cgroup_read_bytes_total"}
    assert not rarely & {metric for _, metric in values(source.read())}


def test_version_1_next_to_an_empty_version_2(tmp_path: Path) -> None:
    cgroup = "4:memory:/job\n2:cpuacct:/job\n1:cpu:/job\n0::/job\n"
    found = {m: value for (_, m), value in values(of(tmp_path, cgroup, VERSION_1).read()).items()}
    assert found == {
        "cgroup_cpu_seconds_total": 2.5,
        "cgroup_cpu_throttled_periods_total": 4,
        "cgroup_cpu_throttled_seconds_total": 0.7,
        "cgroup_cpu_limit_cores": 1.5,
        "cgroup_memory_used_bytes": 1000,
        "cgroup_memory_limit_hits_total": 3,
        "cgroup_oom_kills_total": 1,
    }


def test_a_container_that_sees_only_its_own_group_as_the_root(tmp_path: Path) -> None:
    source = of(tmp_path, "0::/system.slice/docker-abc.scope\n", VERSION_2)
    assert values(source.read())["cgroup", "cgroup_cpu_seconds_total"] == 2.5
    assert source.scope == "container"


def test_no_controller_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not there: no controller of cgroups"):
        list(of(tmp_path, "0::/job\n", {"cgroup.procs": ""}).read())


def test_the_group_of_this_process() -> None:
    import os

    found = values(Cgroup(os.getpid).read())
    assert found["cgroup", "cgroup_cpu_seconds_total"] > 0
