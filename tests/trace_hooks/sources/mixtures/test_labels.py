"""Names of sources."""

from __future__ import annotations

import pytest

from trace_hooks.sources.mixtures.labels import (
    first_path,
    names_of_paths,
    numbered,
    source_of_path,
)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("data/web-000003.tar", "web"),
        ("data/web/train-00003-of-00010.parquet", "web"),
        ("s3://bucket/books/000001.tar", "books"),
        ("https://host/c4-train.00000-of-01024.json.gz?token=7", "c4"),
        ("pipe:curl -s https://host/code-0001.tar -", "code"),
        ("data/cc-2023.jsonl", "cc-2023"),
        ("data/web_text_document", "web_text_document"),
        ("s3://bucket/web/mds", "web"),
        ("train-00000.parquet", "source"),
        ("", "source"),
    ],
)
def test_a_name_is_what_the_files_of_a_source_have_in_common(path: str, name: str) -> None:
    assert source_of_path(path) == name


def test_names_are_those_of_the_folders_that_differ() -> None:
    paths = ["/a/web/v1/train-0.jsonl", "/a/code/v1/train-0.jsonl"]
    assert names_of_paths(paths) == ["web", "code"]
    assert names_of_paths(["/a/x-0.tar", "/a/x-1.tar"]) == ["x 0", "x 1"]


def test_names_fit_into_a_record_and_differ() -> None:
    long = "é" * 40
    names = numbered([long, long, "web"])
    assert names[2] == "web"
    assert len(set(names)) == 3
    assert all(len(name.encode()) <= 32 for name in names)


def test_the_first_path_in_nested_arguments() -> None:
    assert first_path({"split": "train", "files": [["a/b.json", "a/c.json"]]}) == "a/b.json"
    assert first_path({"n": 3, "names": ["train"]}) is None
