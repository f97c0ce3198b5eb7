"""Files that cannot be read are called what they are, by their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.readers.parsing.sources import sources
from ingest.readers.unsupported import what_it_is


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PAR1xxxx", "a Parquet file with other columns than a trace has"),
        (b"BZh91AY", "compressed with bzip2 (decompress it first)"),
        (
            b"SQLite format 3\0",
            "a SQLite database, but neither an export of Nsight Systems nor rocmProfileData",
        ),
        (b"<!DOCTYPE html><html>", "an HTML page, perhaps a login page"),
        (b'{"nothing": 1}', "JSON, but not a trace"),
        (b"hello\n", "plain text, neither a trace nor a log"),
        (b"\x00\x01\x02", "in a format that rankscope does not know"),
    ],
)
def test_what_a_file_is(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "f").write_bytes(content)
    (source,) = sources([tmp_path / "f"], lambda _: None)
    assert what_it_is(source) == what


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("report1.nsys-rep", "nsys export --type sqlite FILE"),
        ("old.QDREP", "nsys export --type sqlite FILE"),
        ("vm.xplane.pb", "xprof.convert.raw_to_tool_data.xspace_to_tool_data"),
    ],
)
def test_what_content_does_not_show_the_name_may(tmp_path: Path, name: str, command: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01\x02\xff" * 9)
    (source,) = sources([tmp_path / name], lambda _: None)
    assert command in what_it_is(source)
