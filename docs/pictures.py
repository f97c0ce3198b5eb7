"""Takes the pictures of the documentation from the dashboard itself: python docs/pictures.py"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from playwright.sync_api import Browser, sync_playwright

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from app.links import View  # noqa: E402 - the script is started from anywhere
from benchmarks.browser import FLAGS, MISSING, Server, chromium  # noqa: E402
from ingest.imports import import_paths  # noqa: E402
from sample_traces import RECORDED  # noqa: E402
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace  # noqa: E402

RUN = "slow_rank"
JOB = "pipeline-with-a-slow-worker"
WATCHED = "watched"
PERTURBED, ALIKE = "perturbed", "alike"
TOKEN = "of-the-pictures"
NOISE = {
    "kind": "gaussian", "strength": 0.1, "target": "weights", "layer": 1, "seed": 3,
    "steps": [60, 69],
}  # fmt: skip
SETTLES_MS = 3000
_AGAINST = (("view", "perturb"), ("against", ALIKE))
_COMPARED = (("view", "inspect"), ("at", "2.1"), ("pins", "3.0"))
PICTURES = {
    "overview": (View(RUN, "overview", rank=5).url(), (1400, 1000)),
    "timeline": (View(RUN, "timeline", rank=5, steps=(4, 5)).url(), (1400, 900)),
    "ranks": (View(RUN, "ranks", rank=5).url(), (1400, 1000)),
    "whatif": (View(JOB, "what-if").url(), (1400, 1120)),
    "model-health": (View(WATCHED, "model", model=(("tensor", "gradient"),)).url(), (1400, 1000)),
    "model-inspect": (View(WATCHED, "model", model=_COMPARED).url(), (1400, 900)),
    "model-perturb": (View(PERTURBED, "model", model=_AGAINST).url(), (1400, 900)),
}
"""name: what is shown, and the size of the window."""


def take(browser: Browser, url: str, size: tuple[int, int], file: Path) -> None:
    """One picture of a page that has settled; raises SystemExit where scripts fail."""
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark"
    )  # fmt: skip
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#page:not(.loading)")
    page.wait_for_timeout(SETTLES_MS)
    page.screenshot(path=file)
    page.close()
    if errors:
        raise SystemExit(f"{url}: {errors[0]}")


def straggler_run(scratch: Path, runs: Path) -> None:
    """A generated StragglerAnalysis trace, imported: 4 stages, 8 dp ranks, a slow worker."""
    job = MegatronJob(pp=4, dp=8, num_steps=20, spread=0.03, slow=((2, 5, 1.6),))
    pq.write_table(straggler_trace(job), scratch / "trace-job.parquet")
    (scratch / "meta-job.yaml").write_text(yaml.safe_dump(job.metadata))
    made = import_paths([scratch / "trace-job.parquet", scratch / "meta-job.yaml"], runs)
    made.rename(runs / JOB)


def watched_run(scratch: Path, runs: Path) -> None:
    """The real job, TP 2 x PP 2, with statistics of its tensors and a watch for its attention."""
    watches = scratch / "watches.json"
    watches.write_text(json.dumps([{"id": "attention", "what": "attention", "every": 10}]))
    recording = {
        "TRACE_HOOKS_RUN": WATCHED, "TRACE_HOOKS_STATISTICS": "5", "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_ALLOW_CONTENT": "1", "TRACE_HOOKS_WATCHES": str(watches),
    }  # fmt: skip
    subprocess.run(
        _job(scratch, runs, 200), cwd=DOCS.parent, env=os.environ | recording, check=True
    )


def perturbed_runs(scratch: Path, runs: Path, server: Server) -> None:
    """The same job twice with the same seed, once with noise in its weights for ten steps."""
    live = {
        "TRACE_HOOKS_SERVER": f"ws://127.0.0.1:{server.port}", "TRACE_HOOKS_TOKEN": TOKEN,
        "TRACE_HOOKS_ALLOW_PERTURBATION": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for name in (ALIKE, PERTURBED):
        environ = os.environ | live | {"TRACE_HOOKS_RUN": name}
        job = subprocess.Popen(_job(scratch, runs, 120), cwd=DOCS.parent, env=environ)
        if name == PERTURBED:
            _perturb(server, name)
        if job.wait():
            raise SystemExit(f"the job of the run {name} failed")


def _perturb(server: Server, run: str) -> None:
    """Ask all ranks for it: the server refuses until they are connected."""
    asked = json.dumps({"name": "perturb", "args": NOISE}).encode()
    for _ in range(600):
        with suppress(urllib.error.HTTPError):
            answer = urllib.request.urlopen(f"{server.url}/api/command?run={run}", asked)
            told = json.load(answer)
            if told["taken_back"] or not all(ack["ok"] for ack in told["acks"]):
                raise SystemExit(f"the ranks did not take the perturbation: {told}")
            return
        time.sleep(0.1)
    raise SystemExit("the ranks have not connected")


def _job(scratch: Path, runs: Path, steps: int) -> list[str]:
    """Command of the real job, TP 2 x PP 2."""
    sizes = {
        "nproc": 4, "pp": 2, "tp": 2, "dp": 1, "steps": steps, "microbatches": 2, "layers": 4,
        "batch": 2, "seq": 32, "width": 32, "heads": 4, "device": "cpu", "runs": runs,
        "losses": scratch / "losses",
    }  # fmt: skip
    options = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    return [sys.executable, "-m", "sample_traces.jobs.train_3d", *options]


def main() -> None:
    """Serve a recorded run and an imported one, and take every picture."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = Path(scratch) / "runs"
        shutil.copytree(RECORDED / RUN, runs / RUN, ignore=shutil.ignore_patterns("index"))
        straggler_run(Path(scratch), runs)
        watched_run(Path(scratch), runs)
        server = Server(runs, "--job-token", TOKEN).start()
        perturbed_runs(Path(scratch), runs, server)
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            for name, (view, size) in PICTURES.items():
                file = DOCS / "img" / f"{name}.png"
                file.parent.mkdir(exist_ok=True)
                take(browser, server.url + view, size, file)
                print(f"{file.relative_to(DOCS)} {file.stat().st_size // 1000} kB")
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
