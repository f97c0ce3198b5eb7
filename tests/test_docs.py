"""The documentation lists what the code has, no more and no less."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from app.cli import VERBS, main
from app.views.ranks.scales import METRICS
from diagnosis.detectors import DETECTORS, against_baseline
from tests.diagnosis.test_findings import a_finding
from trace_hooks.schema import KINDS, TABLES
from trace_hooks.source_names import SOURCES

REPO = Path(__file__).resolve().parents[1]
PAGES = [REPO / "README.md", REPO / "SECURITY.md", *sorted((REPO / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_anchors_are_headings() -> None:
    headings = {page: _anchors(page) for page in PAGES}
    missing = [
        f"{page.name}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
        if anchor not in headings[(page.parent / target).resolve() if target else page]
    ]
    assert not missing


def _anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


def test_every_option_named_is_one_of_its_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    named: dict[str, set[str]] = defaultdict(set)
    for verb, rest in re.findall(r"rankscope (\w+)([^\n`|]*)", text):
        if verb in VERBS:
            named[verb] |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", rest.split(" # ")[0]))
    assert named["serve"]
    for verb, options in named.items():
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
        assert not options - known, verb


def test_every_file_named_is_there() -> None:
    names = {
        name
        for page in PAGES
        for name in re.findall(
            r"`((?:app|assets|benchmarks|diagnosis|docs|ingest|sample_traces|tests|trace_hooks)"
            r"/[\w./]*\w)`",
            page.read_text(),
        )
    }
    assert names
    missing = {name for name in names if not (REPO / name).exists()}
    assert not {name for name in missing if "NAME" not in name}


def test_every_module_that_a_command_names_runs_something() -> None:
    """`python -m MODULE` of a module without `__main__` ends well, having done nothing."""
    files = [*PAGES, REPO / "Makefile", *(REPO / "tests").rglob("*.py")]
    files += (REPO / "benchmarks").rglob("*.py")
    commands = {
        Path(*name.split("."))
        for file in files
        for name in re.findall(r"python -m ([\w.]*\w)", file.read_text())
        if (REPO / name.split(".")[0]).is_dir() and "NAME" not in name
    }
    assert len(commands) > 15
    assert not {path for path in commands if "__main__" not in _run_as_main(REPO / path)}


def _run_as_main(module: Path) -> str:
    path = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
    return path.read_text()


def test_every_test_named_is_there() -> None:
    named = {
        (page.name, *found)
        for page in PAGES
        for found in re.findall(r"`(tests/[\w./]+\.py)::(\w+)`", page.read_text())
    }
    assert len(named) > 30
    assert not [
        f"{page}: {path}::{test}"
        for page, path, test in named
        if f"def {test}(" not in (REPO / path).read_text()
    ]


def test_pictures_are_small_and_used() -> None:
    pictures = sorted((REPO / "docs" / "img").glob("*"))
    text = "\n".join(page.read_text() for page in PAGES)
    assert not [path.name for path in pictures if path.stat().st_size > 300_000]
    assert not [path.name for path in pictures if f"img/{path.name}" not in text]


def test_every_setting_of_the_hooks_is_documented() -> None:
    pattern = re.compile(r"\bTRACE_HOOKS(?:_[A-Z]+)*\b(?!_)")
    code = "\n".join(path.read_text() for path in (REPO / "trace_hooks").rglob("*.py"))
    assert set(pattern.findall((REPO / "docs" / "hooks.md").read_text())) == set(
        pattern.findall(code)
    )


def test_every_source_is_documented() -> None:
    text = (REPO / "docs" / "hooks.md").read_text()
    assert not [name for name in SOURCES if f"\n| `{name}` |" not in text]


def test_every_verb_is_documented() -> None:
    text = (REPO / "docs" / "cli.md").read_text()
    missing = [verb for verb in VERBS if not re.search(rf"^## rankscope {verb}\b", text, re.M)]
    assert not missing, "add a section `## rankscope VERB ARGUMENTS` to docs/cli.md"


def test_the_table_of_detectors_has_the_names_and_kinds_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", _section("cli.md", "Detectors"), re.M)
    documented = {name: set(re.findall(r"\w+", kinds)) for name, kinds in rows}
    known = {detector.name: set(detector.kinds) for detector in DETECTORS}
    known[against_baseline.NAME] = set(against_baseline.KINDS)
    assert documented == known
    assert len(rows) == len(known)


def test_every_key_of_a_finding_is_documented_once() -> None:
    table = _section("cli.md", "Findings as JSON").split("Each finding has:")[1]
    keys = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    assert len(keys) == len(set(keys))
    known = set(a_finding().to_json())
    assert set(keys) <= known
    assert not {key for key in known if f"`{key}`" not in table}


def _section(page: str, heading: str) -> str:
    """Text of a page from a heading to the next one."""
    text = (REPO / "docs" / page).read_text()
    match = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert match
    return match[1]


def test_every_table_column_and_kind_is_documented() -> None:
    text = (REPO / "docs" / "data-model.md").read_text()
    columns = {column.name for table in TABLES.values() for column in table.columns}
    assert not [word for word in (*TABLES, *columns, *KINDS) if f"`{word}`" not in text]


def test_every_question_is_documented() -> None:
    text = (REPO / "docs" / "data-model.md").read_text()
    questions = [path.stem for path in (REPO / "ingest" / "sql").glob("*.sql")]
    assert questions
    assert not [name for name in questions if f"`{name}`" not in text]


def test_the_glossary_defines_each_word_once_in_a_form_that_can_be_read() -> None:
    text = (REPO / "docs" / "glossary.md").read_text()
    entries = re.findall(r"^### (.+)\n(.+)\n(?:\n|\Z)", text, re.M)
    terms = [term for term, _ in entries]
    letters = [re.sub("[^a-z]", "", term.lower()) for term in terms]
    assert len(terms) == text.count("### ") > 100
    assert letters == sorted(set(letters))
    assert not [term for term, meaning in entries if not 5 <= len(meaning.split()) <= 60]


def test_every_metric_of_ranks_is_in_the_glossary() -> None:
    terms = re.findall(r"^### (.+)$", (REPO / "docs" / "glossary.md").read_text(), re.M)
    for metric in METRICS.values():
        plain = re.sub(r"Exposed [A-Z]P", "Exposed", metric.title).removesuffix(" of compute")
        assert plain in terms
