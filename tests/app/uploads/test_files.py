"""Where the files of an upload lie, and what it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.uploads.files import FileHead, Files, parse_list, run_name, safe_name, safe_path, title


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\traces\\rank-3.json.gz", "rank-3.json.gz"),
        (".hidden", "hidden"),
        ("..", "file"),
        ("", "file"),
        ("a\x00b\n\x1b.json", "a_b__.json"),
        ("<script>.json", "_script_.json"),
        ("übung 1.json", "übung 1.json"),
    ],
)
def test_names_have_no_folders_and_no_surprises(name, safe):
    assert safe_name(name) == safe


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("a/./../b//c.json", "a/b/c.json"),
        ("job\\rank-3.json", "job/rank-3.json"),
        ("/", "file"),
        ("/".join("abcdefghijk"), "d/e/f/g/h/i/j/k"),
    ],
)
def test_places_are_below_their_folder(name, place):
    assert safe_path(name) == Path(place)


def test_long_names_keep_their_ending():
    name = safe_name("é" * 300 + ".json.gz")
    assert name.endswith(".json.gz")
    assert len(name.encode()) <= 160


def test_files_and_folders_of_one_name_get_out_of_each_others_way(tmp_path):
    names = ["a", "a/b", "c/d", "c", "a", "again-1/b"]
    files = Files(tmp_path / "files", [FileHead(name, 1) for name in names])
    files.append(b"123456")
    by_name = {
        path.relative_to(tmp_path / "files")
        for path in (tmp_path / "files").rglob("*")
        if path.is_file()
    }
    assert len(by_name) == len(names)
    assert {Path("a"), Path("c/d"), Path("again-1/b")} < by_name


def test_what_an_upload_is_called():
    def called(*names):
        return title([FileHead(name, 1) for name in names])

    assert called("a.json") == "a.json"
    assert called("job/a.json", "job/b.json") == "job"
    assert called("a.json", "b.json") == "2 files"


@pytest.mark.parametrize(
    ("names", "called"),
    [
        (["a.json"], "a.json"),
        (["job/a.json", "job/b.json"], "job"),
        (["meta.yaml", "trace.parquet"], "trace.parquet"),
        (["a.txt", "b.log"], "a.txt"),
    ],
)
def test_what_a_run_is_called(names, called):
    assert run_name([FileHead(name, 1) for name in names]) == called


def test_bytes_are_written_as_they_come_whatever_their_borders(tmp_path):
    files = Files(
        tmp_path / "files", [FileHead(n, s) for n, s in (("e", 0), ("a", 3), ("f", 0), ("b", 2))]
    )
    for byte in b"12345":
        files.append(bytes([byte]))
    assert files.is_whole
    assert [path.read_bytes() for path in files.paths] == [b"", b"123", b"", b"45"]


def test_names_that_cannot_be_written_are_shown_all_the_same():
    (head,) = parse_list([{"name": "a\ud800.json", "size": 1}], 10)
    assert head.name == "a?.json"
    assert title([head]).encode() == b"a?.json"
