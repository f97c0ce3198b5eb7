"""Takes the pictures of the documentation from the dashboard itself: python docs/pictures.py"""

from __future__ import annotations

import shutil
import sys
import tempfile
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
SETTLES_MS = 3000
PICTURES = {
    "overview": (View(RUN, "overview", rank=5).url(), (1400, 1000)),
    "timeline": (View(RUN, "timeline", rank=5, steps=(4, 5)).url(), (1400, 900)),
    "ranks": (View(RUN, "ranks", rank=5).url(), (1400, 1000)),
    "whatif": (View(JOB, "what-if").url(), (1400, 1120)),
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


def main() -> None:
    """Serve a recorded run and an imported one, and take every picture."""
    path = chromium()
    if path is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        runs = Path(scratch) / "runs"
        shutil.copytree(RECORDED / RUN, runs / RUN, ignore=shutil.ignore_patterns("index"))
        straggler_run(Path(scratch), runs)
        server = Server(runs).start()
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
