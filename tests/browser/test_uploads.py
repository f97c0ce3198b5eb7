"""Uploads as people do them: files, folders, breaks of every kind; each ends on a picture."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import Route

from app.links import View
from benchmarks.browser import Server
from tests.browser import runs_made
from tests.browser.conftest import OpenTab
from tests.browser.cutting import CutLine
from tests.browser.tabs import Tab

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
BIG_BYTES = int(os.environ.get("UPLOAD_MB", "12")) * 10**6
"""UPLOAD_MB=300 for the real thing."""
LONG_MS = 30_000 + BIG_BYTES // 2000
NO_ANSWER = "ERR_|Failed to load|failed: |status (409|423)"
"""What a cut line makes the browser note; 409, 423: the server was still writing what had come."""
FILES, FOLDER = 'input[type="file"]:not([webkitdirectory])', "input[webkitdirectory]"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server of its own: may be killed, and its folder counted."""
    folder = tmp_path / "runs"
    folder.mkdir()
    running = Server(folder).start()
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


@pytest.fixture
def line(own: Server) -> Iterator[CutLine]:
    """A line to that server that can be cut."""
    with CutLine(own.port) as line:
        yield line


@pytest.fixture
def shaky(tabs: OpenTab, line: CutLine) -> Tab:
    """A tab on that line, in which a broken connection is no fault of the page."""
    tab = tabs(line.url)
    tab.problems.allow(NO_ANSWER)
    return tab


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A torch.profiler trace of several pieces."""
    return runs_made.big_kineto(tmp_path_factory.mktemp("big") / "big.json", BIG_BYTES)


def told(tab: Tab) -> str:
    """What the panel says."""
    return tab.page.locator(".upload").inner_text()


def imported_run(tab: Tab, timeout_ms: float = 30_000) -> str:
    """Name of the run once it is there."""
    link = tab.page.locator(".upload.done a").first
    link.wait_for(timeout=timeout_ms)
    return link.inner_text()


def wait_for_text(tab: Tab, text: str, timeout_ms: float = 20_000) -> None:
    tab.page.locator(".upload").get_by_text(text).first.wait_for(timeout=timeout_ms)


def see_all_ranks(tab: Tab, run: str, num_ranks: int) -> None:
    """Every page of the run is sound and shows so many ranks, the timeline as drawn lanes."""
    tab.page.locator(".upload.done a").first.click()
    tab.page.wait_for_url("**/overview")
    for page in ("overview", "ranks", "timeline"):
        tab.open(View(run, page).url())
        tab.settle()
        tab.assert_sound()
        if page == "ranks" and num_ranks > 1:
            assert f"{num_ranks} ranks" in tab.page.locator("#page").inner_text()
    assert num_ranks_told(tab, run) == num_ranks
    many = f"{num_ranks} of {num_ranks} rank{'' if num_ranks == 1 else 's'}"
    assert many in tab.page.locator("#page").inner_text()
    assert tab.num_colours(tab.page.locator("#page canvas:visible").first) > 5


def num_ranks_told(tab: Tab, run: str) -> int:
    """What the list of runs says once it has read the run."""
    for _ in range(100):
        answer = tab.page.request.get(f"{tab.base}/api/runs").json()
        [row] = [row for row in answer["runs"] if row["name"] == run]
        if row["num_ranks"] is not None:
            return int(row["num_ranks"])
        tab.page.wait_for_timeout(100)
    raise AssertionError(f"still {row['state']}: {row['problem']}")


def drop(tab: Tab, *paths: Path) -> None:
    """Drop files and folders on the page, as the desktop does."""
    session = tab.context.new_cdp_session(tab.page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": data})
        tab.page.wait_for_timeout(200)  # the browser asks the page first whether it may be dropped
    session.detach()


def test_a_file_becomes_a_run(tab: Tab, tmp_path: Path) -> None:
    file = runs_made.kineto_file(tmp_path / "uploaded.json", rank=1)
    tab.open()
    tab.page.locator(FILES).set_input_files(file)
    run = imported_run(tab)
    assert "uploaded" in run
    tab.page.locator(".upload.done a").first.click()
    tab.page.wait_for_url(f"**/run/{run}/overview")


def test_something_else_is_refused_in_words(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are no traces")
    tab.open()
    tab.page.locator(FILES).set_input_files(file)
    wait_for_text(tab, "notes.txt is")
    assert "notes.txt" in tab.page.locator(".upload-place [role=alert]").inner_text()
    tab.page.get_by_role("button", name="Close").click()
    assert tab.page.locator(".upload").is_hidden()


def test_a_dropped_folder_becomes_one_run(tab: Tab, tmp_path: Path) -> None:
    for rank in (2, 3):  # what other tests imported keeps the name it has
        runs_made.kineto_file(tmp_path / "job" / f"host{rank}" / "trace.json", rank)
    (tmp_path / "job" / ".cache").write_text("hidden")
    tab.open()
    drop(tab, tmp_path / "job")
    run = imported_run(tab)
    assert run.startswith("job-")
    see_all_ranks(tab, run, 2)


def test_a_chosen_folder_becomes_one_run(tab: Tab, tmp_path: Path) -> None:
    for rank in (4, 5):
        runs_made.kineto_file(tmp_path / "chosen" / f"rank{rank}.json", rank)
    tab.open()
    tab.page.locator(FOLDER).set_input_files(tmp_path / "chosen")
    assert imported_run(tab).startswith("chosen-")


def test_a_broken_connection_is_gone_on_with(
    shaky: Tab, own: Server, line: CutLine, big: Path
) -> None:
    tab = shaky
    tab.open()
    line.cut_after = BIG_BYTES // 3
    tab.page.locator(FILES).set_input_files(big)
    run = imported_run(tab, LONG_MS)
    assert line.num_cuts == 1
    assert (own.runs / run / "run.json").is_file()
    assert not list((own.runs / ".uploads").iterdir())
    see_all_ranks(tab, run, 1)


def test_a_reload_is_gone_on_with_by_the_same_files(
    shaky: Tab, own: Server, line: CutLine, big: Path
) -> None:
    tab = shaky
    stop_at(tab, line, big)
    tab.page.goto("about:blank")
    line.is_down = False
    tab.open()
    wait_for_text(tab, "have come")
    assert "Choose or drop the same files again" in told(tab)
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Choose files").click()
    sent: list[int] = []
    tab.page.on("request", lambda r: sent.append(int(r.headers["upload-offset"]))
                if r.method == "PATCH" else None)  # fmt: skip
    chooser.value.set_files(big)
    imported_run(tab, LONG_MS)
    assert min(sent) > BIG_BYTES // 4  # not from its beginning


def stop_at(tab: Tab, line: CutLine, big: Path) -> None:
    """Send a third of a file until the line goes down."""
    tab.open()
    line.cut_after, line.stays_down = BIG_BYTES // 3, True
    tab.page.locator(FILES).set_input_files(big)
    tab.page.locator(".upload.broken").wait_for(timeout=LONG_MS)


def test_a_restart_of_the_server_is_gone_on_with(
    shaky: Tab, own: Server, line: CutLine, big: Path
) -> None:
    tab = shaky
    stop_at(tab, line, big)
    own.kill()
    own.start()
    line.is_down = False
    tab.page.get_by_role("button", name="Try now").click()
    imported_run(tab, LONG_MS)
    assert not list((own.runs / ".uploads").iterdir())


def test_what_has_come_may_be_discarded(shaky: Tab, own: Server, line: CutLine, big: Path) -> None:
    tab = shaky
    stop_at(tab, line, big)
    tab.page.goto("about:blank")
    line.is_down = False
    tab.open()
    tab.page.get_by_role("button", name="Discard").click()
    wait_for_text(tab, "nothing of it was kept")
    tab.settle()
    assert not list((own.runs / ".uploads").iterdir())
    tab.open()
    tab.settle()
    assert tab.page.locator(".upload").is_hidden()


def never_answered(route: Route) -> None:
    """Bytes are never taken; everything else passes."""
    if route.request.method != "PATCH":
        route.continue_()


def test_sending_can_be_cancelled(tabs: OpenTab, own: Server, big: Path) -> None:
    tab = tabs(own.url)
    tab.page.route("**/api/uploads/*", never_answered)
    tab.open()
    tab.page.locator(FILES).set_input_files(big)
    wait_for_text(tab, "Sending big.json")
    assert tab.page.get_by_role("button", name="Import files").is_disabled()
    tab.page.get_by_role("button", name="Cancel").focus()
    tab.page.keyboard.press("Enter")
    wait_for_text(tab, "nothing of it was kept")
    tab.page.wait_for_timeout(300)
    assert not list((own.runs / ".uploads").iterdir())


@contextmanager
def held(server: Server, file: str) -> Iterator[None]:
    """Hold the reader of a file still while the block runs."""
    until_s = time.monotonic() + LONG_MS / 1000
    readers: list[int] = []
    while not readers:
        assert time.monotonic() < until_s, f"nobody has read {file}"
        readers = [pid for pid in children(server.pid) if has_open(pid, file)]
    os.kill(readers[0], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(readers[0], signal.SIGCONT)


def children(pid: int) -> list[int]:
    """Processes that one has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def has_open(pid: int, file: str) -> bool:
    """Whether a process has a file of that name open."""
    with suppress(OSError):  # it has just ended, or closed it
        return any(place.readlink().name == file for place in Path(f"/proc/{pid}/fd").iterdir())
    return False


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one reader")
def test_what_is_read_can_be_looked_at_while_the_rest_is_read(
    tabs: OpenTab, own: Server, big: Path, tmp_path: Path
) -> None:
    for rank in (1, 2):
        runs_made.kineto_file(tmp_path / "job" / f"rank{rank}.json", rank)
    (tmp_path / "job" / "rank0.json").hardlink_to(big)
    tab = tabs(own.url)
    tab.open()
    tab.page.locator(FOLDER).set_input_files(tmp_path / "job")
    with held(own, "rank0.json"):
        wait_for_text(tab, "What is read so far")
        row = tab.page.locator("tr[data-state=importing]")
        row.get_by_text("2 of 3 files").wait_for()
        run = tab.page.locator(".upload a").inner_text()
        tab.page.locator(".upload a").click()
        tab.page.wait_for_url("**/overview")
        see_part(tab, run)
    # the page opens itself anew once all is read
    tab.page.locator("#live-state.finished").wait_for(timeout=LONG_MS)
    tab.settle()
    assert num_ranks_told(tab, run) == 3
    assert "Files are still read" not in tab.page.locator("body").inner_text()
    assert not list(own.runs.glob(".import-*"))


def see_part(tab: Tab, run: str) -> None:
    """The pages of a run of which two ranks are read say so, and show these."""
    tab.page.locator("#live-state.importing").wait_for()
    tab.page.get_by_text("Files are still read into this run").first.wait_for()
    tab.settle()
    tab.assert_sound()
    assert "2 of 3 files" in tab.page.locator(".about-run").inner_text()
    tab.open(View(run, "timeline").url())
    tab.settle()
    tab.assert_sound()
    assert "2 of 2 ranks" in tab.page.locator("#page").inner_text()
    assert "not aligned" in tab.page.locator("#clock-note").inner_text()


@pytest.mark.parametrize(
    ("names", "num_ranks"),
    [
        (["kineto/dlrm8.tar.gz"], 8),
        (["kineto/megatron_tp2"], 2),
        (["flight_recorder/gpu_error_1st"], 16),
        (["straggler_analysis/trace-ST.parquet", "straggler_analysis/meta-ST.yaml"], 8),
    ],
    ids=["dlrm8", "megatron_tp2", "flight_recorder", "ST"],
)
def test_real_traces_end_on_a_picture_of_all_ranks(
    tab: Tab, names: list[str], num_ranks: int
) -> None:
    paths = [SHARED / name for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip(f"needs {names} in ../shared/traces")
    tab.open()
    drop(tab, *paths)
    see_all_ranks(tab, imported_run(tab, 60_000), num_ranks)
