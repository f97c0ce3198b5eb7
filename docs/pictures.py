"""Takes the pictures of the documentation from a running dashboard.

    python docs/pictures.py [NAME ...]

NAME is one of PICTURES; without names it takes all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from app.view_state import View  # noqa: E402 - the script is started from anywhere
from benchmarks.browser import FLAGS, MISSING, Server, chromium  # noqa: E402
from docs.pictured_runs import fleet_runs, restarted_run  # noqa: E402
from ingest.imports.importer import import_paths  # noqa: E402
from sample_traces import RECORDED  # noqa: E402
from sample_traces.generate.faults import SyntheticFault  # noqa: E402
from sample_traces.generate.job import SyntheticJob  # noqa: E402
from sample_traces.generate.straggler_trace import MegatronJob, straggler_trace  # noqa: E402
from sample_traces.generate.tables.write import generate  # noqa: E402

RUN = "slow_rank"
JOB = "pipeline-with-a-slow-worker"
WATCHED = "watched"
PERTURBED, UNPERTURBED = "perturbed", "alike"
PROMPTED = "prompted"
EXPERTS, SKEWED, RESTARTED = "experts", "skewed", "restarted"
HOT_EXPERT = 5
LEARNT = 900
"""Steps after which the small model can continue a sequence of numbers."""
TOKEN = "a-secret-of-the-pictures"
NOISE = {
    "kind": "gaussian",
    "strength": 0.1,
    "target": "weights",
    "layer": 1,
    "seed": 3,
    "steps": [60, 69],
}
SETTLES_MS = 3000
STUCK_JOB = DOCS.parent / "benchmarks" / "stuck" / "job.py"
ENDS_S = 60.0
"""How long a stuck job has to end."""
_AGAINST = (("view", "perturb"), ("against", UNPERTURBED))
_COMPARED = (("view", "inspect"), ("at", "2.1"), ("pins", "3.0"))
PICTURES = {
    "overview": (View(RUN, "overview", rank=5).url(), (1400, 1560)),
    "timeline": (View(RUN, "timeline", rank=5, steps=(4, 5)).url(), (1400, 900)),
    "ranks": (View(RUN, "ranks", rank=5).url(), (1400, 1000)),
    "whatif": (View(JOB, "what-if").url(), (1400, 1120)),
    "which-schedule": (
        View(JOB, "what-if", pipeline=(("schedule", "zbv"), ("stragglers", "no"))).url(),
        (1400, 1120),
    ),
    "model-health": (View(WATCHED, "model", model=(("tensor", "gradient"),)).url(), (1400, 1000)),
    "model-inspect": (View(WATCHED, "model", model=_COMPARED).url(), (1400, 900)),
    "model-perturb": (View(PERTURBED, "model", model=_AGAINST).url(), (1400, 900)),
    "experts": (View(EXPERTS, "experts", expert=(2, HOT_EXPERT)).url(), (1400, 2070)),
    "mfu": (View(SKEWED, "efficiency", peak="300").url(), (1400, 1300)),
    "startup": (View(RESTARTED, "efficiency", attempt=0).url(), (1400, 1300)),
    "goodput": (View(RESTARTED, "efficiency").url(), (1400, 1300)),
    "fleet": (View(page="fleet").url(), (1400, 1180)),
    "stuck": (View("sleep", "stuck").url(), (1400, 1180)),
    "stuck-circle": (View("order", "stuck").url(), (390, 844)),
    "model-prompt": (View(PROMPTED, "model", model=(("view", "prompt"),)).url(), (1400, 1060)),
}
"""name: address of the view, and size of the window."""

PARTS = {
    "which-schedule": ".whatif-schedules",
    "mfu": ".mfu",
    "startup": ".startup",
    "goodput": ".goodput",
}
"""Pictures of one part of their page."""


def take(
    browser: Browser,
    url: str,
    size: tuple[int, int],
    file: Path,
    act: Callable[[Page], None] | None = None,
    part: str | None = None,
) -> None:
    """Take one picture of a page once it has settled, or of `part` of it (a selector); `act` uses
    the page before. Raises SystemExit where a script of the page fails.
    """
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="dark")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#page:not(.loading)")
    if act is not None:
        act(page)
    page.wait_for_timeout(SETTLES_MS)
    if part is None:
        page.screenshot(path=file)
    else:
        page.locator(part).screenshot(path=file)
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
    """Run the real job, TP 2 x PP 2, with tensor statistics and a watch of its attention."""
    watches = scratch / "watches.json"
    watches.write_text(json.dumps([{"id": "attention", "what": "attention", "every": 10}]))
    recording = {
        "TRACE_HOOKS_RUN": WATCHED,
        "TRACE_HOOKS_STATISTICS": "5",
        "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_ALLOW_CONTENT": "1",
        "TRACE_HOOKS_WATCHES": str(watches),
    }
    subprocess.run(
        _job(scratch, runs, 200), cwd=DOCS.parent, env=os.environ | recording, check=True
    )


def experts_run(scratch: Path, runs: Path) -> None:
    """Run the real job with experts, PP 2 x EP 2; one expert is hot from a step on."""
    job = "--nproc 4 --pp 2 --dp 1 --ep 2 --layers 6 --experts 16 --steps 60 --device cpu"
    command = [sys.executable, "-m", "sample_traces.jobs.train_moe", *job.split()]
    command += ["--fault", f"hot-expert={HOT_EXPERT},from=20", "--runs", str(runs)]
    recording = {
        "TRACE_HOOKS_RUN": EXPERTS,
        "TRACE_HOOKS_RING_DIR": str(scratch / "rings"),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run(command, cwd=DOCS.parent, env=os.environ | recording, check=True)


def skewed_run(runs: Path) -> None:
    """Generate a job whose garbage collections stop its ranks for longer and longer."""
    growing = [f"gc_pauses,ms=4,from={step}" for step in (80, 120, 160)]
    faults = tuple(SyntheticFault.parse(text) for text in growing)
    generate(SyntheticJob(16, pp=2, tp=2, num_steps=200, faults=faults), runs / SKEWED)


def perturbed_runs(scratch: Path, runs: Path, server: Server) -> None:
    """Run the same job twice with the same seed, once with noise in its weights for ten steps."""
    live = {
        "TRACE_HOOKS_SERVER": f"ws://127.0.0.1:{server.port}",
        "TRACE_HOOKS_TOKEN": TOKEN,
        "TRACE_HOOKS_ALLOW_PERTURBATION": "1",
        "OMP_NUM_THREADS": "1",
    }
    for name in (UNPERTURBED, PERTURBED):
        environ = os.environ | live | {"TRACE_HOOKS_RUN": name}
        job = subprocess.Popen(_job(scratch, runs, 120), cwd=DOCS.parent, env=environ)
        if name == PERTURBED:
            _perturb(server, name)
        if job.wait():
            raise SystemExit(f"the job of the run {name} failed")


def _perturb(server: Server, run: str) -> None:
    """Request it from all ranks; the server refuses until they are connected."""
    body = json.dumps({"name": "perturb", "args": NOISE}).encode()
    for _ in range(600):
        with suppress(urllib.error.HTTPError):
            response = urllib.request.urlopen(f"{server.url}/api/command?run={run}", body)
            answer = json.load(response)
            if answer["taken_back"] or not all(ack["ok"] for ack in answer["acks"]):
                raise SystemExit(f"the ranks refused the perturbation: {answer}")
            return
        time.sleep(0.1)
    raise SystemExit("the ranks have not connected")


@contextmanager
def prompted_run(scratch: Path, runs: Path, server: Server) -> Iterator[None]:
    """Run a wider model that has learnt something, and train it on as long as the block runs."""
    live = {
        "TRACE_HOOKS_SERVER": f"ws://127.0.0.1:{server.port}",
        "TRACE_HOOKS_TOKEN": TOKEN,
        "TRACE_HOOKS_ALLOW_CONTENT": "1",
        "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_RUN": PROMPTED,
    }
    command = _job(scratch, runs, 1_000_000, width=64, batch=4, lr=0.003, nice=19)
    job = subprocess.Popen(command, cwd=DOCS.parent, env=os.environ | live, start_new_session=True)
    try:
        step = 0
        while step < LEARNT:
            if job.poll() is not None:
                raise SystemExit(f"the job of the run {PROMPTED} failed")
            time.sleep(1)
            status = json.load(urllib.request.urlopen(f"{server.url}/api/connected?run={PROMPTED}"))
            step = status["step"] or 0
        yield
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


@contextmanager
def stuck_job(scratch: Path, runs: Path, case: str) -> Iterator[None]:
    """Run a real job that gets stuck, as benchmarks/stuck has it, as long as the block runs."""
    folder = scratch / case
    folder.mkdir()
    environ = os.environ | {
        "PYTHONPATH": str(DOCS.parent),
        "OMP_NUM_THREADS": "1",
        "TRACE_HOOKS_FOLDER": str(runs),
        "TRACE_HOOKS_RING_DIR": str(folder / "rings"),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    job = subprocess.Popen([*command, "8", str(STUCK_JOB), case, str(folder)], env=environ)
    try:
        while not (folder / "onset").exists():
            if job.poll() is not None:
                raise SystemExit(f"the stuck job {case} failed")
            time.sleep(1)
        yield
    finally:
        job.terminate()  # torchrun ends its ranks, which are in sessions of their own
        job.wait(ENDS_S)


def _wait_for_cause(page: Page) -> None:
    """The sentence comes before the cause, and this before the stacks."""
    for part in (".stuck-why", ".stuck-stacks"):
        page.locator(part).first.wait_for(timeout=300_000)


def _wait_for_change(page: Page) -> None:
    """All steps are searched for a decline."""
    page.locator(".mfu-change table").wait_for(timeout=60_000)


def _wait_for_startup(page: Page) -> None:
    page.locator(".startup table").first.wait_for(timeout=60_000)


def _wait_for_goodput(page: Page) -> None:
    page.locator(".goodput svg, .goodput canvas").first.wait_for(timeout=60_000)


WAITS = {"mfu": _wait_for_change, "startup": _wait_for_startup, "goodput": _wait_for_goodput}


def _wait_for_fleet(page: Page) -> None:
    """Until no run is being looked at."""
    page.locator(".fleet-panels > .panel").first.wait_for(timeout=60_000)
    page.wait_for_function("document.querySelector('.fleet > .note')?.hidden", timeout=120_000)


def _prompt(page: Page) -> None:
    """Let the model continue a sequence, and open the attention of one of its tokens."""
    page.get_by_label("prompt", exact=True).fill("100 103 106 109 112 115 118 121 124 127 130 133")
    page.get_by_label("new tokens").fill("8")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("8 tokens; training waited").wait_for(timeout=60_000)
    page.locator(".prompt-tokens button").nth(2).click()
    page.locator(".strip canvas[aria-label]").wait_for(timeout=60_000)


def _job(scratch: Path, runs: Path, steps: int, **more: object) -> list[str]:
    """Command line of the real job, TP 2 x PP 2."""
    sizes = {
        "nproc": 4,
        "pp": 2,
        "tp": 2,
        "dp": 1,
        "steps": steps,
        "microbatches": 2,
        "layers": 4,
        "batch": 2,
        "seq": 32,
        "width": 32,
        "heads": 4,
        "device": "cpu",
        "runs": runs,
        "losses": scratch / "losses",
        **more,
    }
    options = [text for name, value in sizes.items() for text in (f"--{name}", str(value))]
    return [sys.executable, "-m", "sample_traces.jobs.train_3d", *options]


def main(names: Sequence[str]) -> None:
    """Serve recorded, imported and running jobs, and take pictures."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        raise SystemExit(f"unknown picture {unknown[0]}; known: {', '.join(PICTURES)}")
    wanted = set(names or PICTURES)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as running:
        scratch, runs = Path(folder), Path(folder) / "runs"
        shutil.copytree(RECORDED / RUN, runs / RUN, ignore=shutil.ignore_patterns("index"))
        if wanted & {"whatif", "which-schedule"}:
            straggler_run(scratch, runs)
        if wanted & {"model-health", "model-inspect"}:
            watched_run(scratch, runs)
        if "experts" in wanted:
            experts_run(scratch, runs)
        if "mfu" in wanted:
            skewed_run(runs)
        if wanted & {"startup", "goodput"}:
            restarted_run(scratch, runs / RESTARTED)
        server = Server(runs, "--job-token", TOKEN).start()
        running.callback(server.stop)
        if "model-perturb" in wanted:
            perturbed_runs(scratch, runs, server)
        playwright = running.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        running.callback(browser.close)
        for name in [name for name in PICTURES if name in wanted]:
            view, size = PICTURES[name]
            file = DOCS / "img" / f"{name}.png"
            file.parent.mkdir(exist_ok=True)
            if name.startswith("stuck"):
                case = view.split("/")[2]
                with stuck_job(scratch, runs, case):
                    take(browser, server.url + view, size, file, _wait_for_cause)
            elif name == "fleet":
                fleet_runs(scratch / "fleet")
                many = Server(scratch / "fleet").start()
                running.callback(many.stop)
                take(browser, many.url + view, size, file, _wait_for_fleet)
            elif name == "model-prompt":
                with prompted_run(scratch, runs, server):
                    take(browser, server.url + view, size, file, _prompt)
            else:
                act = WAITS.get(name)
                take(browser, server.url + view, size, file, act, PARTS.get(name))
            print(f"{file.relative_to(DOCS)} {file.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
