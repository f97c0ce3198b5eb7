"""Sizes of a StragglerAnalysis job, from yaml, metadata or the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.readers.straggler_analysis.sizes import sizes_in, sizes_in_folder, sizes_in_metadata

YAML = b"dp_size: 4\npp_size: 2\ntp_size: '1'\nother: x\n"
SIZES = {"dp_size": 4, "pp_size": 2, "tp_size": 1}


def test_a_yaml_of_sizes() -> None:
    assert sizes_in(YAML) == SIZES


@pytest.mark.parametrize(
    "text",
    [
        YAML.replace(b"tp_size", b"xp_size"),
        YAML + b"[" * 65,
        YAML + b"#" * (1 << 12),
        b"dp_size pp_size: [",
        YAML + b"begun: 2026-13-45\n",
    ],
    ids=["incomplete", "deep", "long", "broken", "no day"],
)
def test_anything_else_has_no_sizes(text: bytes) -> None:
    assert sizes_in(text) is None


def test_keys_of_metadata_or_one_value() -> None:
    keys = {name.encode(): str(size).encode() for name, size in SIZES.items()}
    assert sizes_in_metadata(keys) == SIZES
    assert sizes_in_metadata({b"job": YAML}) == SIZES
    assert sizes_in_metadata({b"job": b"x"}) is None


def test_yamls_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(YAML)
    (tmp_path / "b.yml").write_bytes(b"x: 1")
    (tmp_path / "c.yaml").mkdir()
    (tmp_path / "d.yaml").symlink_to(tmp_path / "gone.yaml")
    os.mkfifo(tmp_path / "e.yaml")  # reading it would wait for ever
    assert sizes_in_folder(tmp_path / "t.parquet") == {str(tmp_path / "a.yaml"): SIZES}
