"""A standalone Spark cluster on loopback: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.memory": "480m",
    "spark.shuffle.registration.timeout": "30000",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""Of a session: two executors of one core, some 2 GB in all with master and workers."""


START_S = 600.0
"""How long a JVM may take to start on a busy machine."""


class LocalCluster:
    """A master; workers are started and killed one by one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        master = self._start("master.Master", "master", "--port", "0", "--webui-port", "0")
        self._workers: list[subprocess.Popen[bytes]] = []
        self.url: str = wait_until(
            lambda: self._logged("master", r"(spark://127\.0\.0\.1:\d+)"), START_S
        )
        assert master.poll() is None

    def start_workers(self, count: int) -> None:
        """Start workers of one core, and wait until the master has them."""
        names = []
        for _ in range(count):
            names.append(f"worker{len(self._processes)}")
            size = ("--cores", "1", "--memory", "512m", "--webui-port", "0")
            place = ("--work-dir", str(self._folder / names[-1]))
            self._workers.append(self._start("worker.Worker", names[-1], *size, *place, self.url))
        for name in names:
            wait_until(lambda name=name: self._logged(name, r"(Successfully registered)"), START_S)

    def kill_worker(self) -> None:
        """SIGKILL the oldest worker that lives, with its executor and the processes of that."""
        worker = self._workers.pop(0)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def stop(self) -> None:
        """Kill all that is left."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _start(self, role: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_DAEMON_MEMORY": "160m",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    str(home / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{role}",
                    "--host",
                    "127.0.0.1",
                    *arguments,
                ],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _logged(self, name: str, pattern: str) -> str | None:
        found = re.search(pattern, (self._folder / f"{name}.log").read_text(errors="replace"))
        return found[1] if found else None
