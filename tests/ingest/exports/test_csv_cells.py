"""No way to CSV lets a text through that a spreadsheet takes for a formula."""

from __future__ import annotations

import base64
import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest

from app.cli import main
from app.views.run.query import csv_pieces
from ingest.exports.csv_cells import harmless, harmless_column
from ingest.exports.tables import _plain_column, write_csv
from ingest.exports.window import Window
from ingest.run import open_run
from tests.runs_builder import two_rank_run

FORMULA = "=HYPERLINK(1)"
IN_FRONT = (
    "",
    " ",
    "   ",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "\x0b",
    "\x1f",
    "\x7f",
    "\x85",
    "\xa0",
    "\xad",
    "\u2003",
    "\u200b",
    "\u2028",
    "\u202e",
    "\u2060",
    "\u3000",
    "\ufeff",
    "\n \ufeff",
)
SIGNS = "=+-@＝＋－＠"
HARMLESS = (
    "",
    "forward",
    "<module>",
    "#1",
    "x=1",
    " x",
    "{}",
    "[1]",
    "0",
    "é",
    "名",
    "'=1",
    "\xa0",
)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("before", IN_FRONT)
def test_a_formula_gets_a_quote_in_front(before: str, sign: str) -> None:
    text = f"{before}{sign}1+1"
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["\tx", "\rx", "\nx"])
def test_so_does_what_may_begin_another_cell(text: str) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert harmless(text) == text


def test_columns_are_as_their_cells() -> None:
    texts = [f"{before}{FORMULA}" for before in IN_FRONT] + list(HARMLESS) * 2
    found = harmless_column(pa.array([*texts, None]))
    assert found.to_pylist() == [*map(harmless, texts), None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every text of an operation is a formula."""
    made = two_rank_run(tmp_path_factory.mktemp("runs") / "job")
    for before in IN_FRONT:
        made.span(0, 1, "forward", 0, 1, name=f"{before}{FORMULA}")
    made.publish()
    return made.folder


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def check(text: str) -> None:
    found = [cell for cell in cells(text) if FORMULA in cell]
    assert len(found) >= len(IN_FRONT)
    assert all(cell.startswith("'") for cell in found), found


SQL = f"SELECT name, name AS \"\n{FORMULA}\" FROM spans WHERE name LIKE '%{FORMULA}'"


def test_of_the_query_page(folder: Path) -> None:
    with open_run(folder) as run:
        check(b"".join(csv_pieces(run, (SQL, None))).decode())


def test_of_the_verb_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", str(folder), SQL, "--csv"]) == 0
    check(capsys.readouterr().out)


def test_of_exports(folder: Path, tmp_path: Path) -> None:
    with open_run(folder) as run:
        write_csv(run, "spans", Window(), tmp_path / "a.csv")
    check((tmp_path / "a.csv").read_bytes().decode())


def test_bytes_and_numbers_stay_as_they_are() -> None:
    content = [b"\xfb\xff", b"\xff\xff\xff", b"x"]  # the first ones are +/ and / in base64
    (data, shape) = (
        _plain_column(pa.array(content)),
        _plain_column(pa.array([[-1, 0], [2]], pa.list_(pa.int32()))),
    )
    assert [base64.b64decode(one) for one in data.to_pylist()] == content
    assert data[0].as_py().startswith("+")
    assert shape.to_pylist() == ["-1 0", "2"]
