"""Files as readers get them: packed, in archives, damaged, in natural order."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.errors import UserError
from ingest.readers.parsing.sources import Source, files_of, sources


def _read_all(source: Source) -> bytes:
    return b"".join(iter(lambda: source.read(1000), b""))


def _contents(paths: list[Path]) -> dict[str, bytes]:
    return {source.name: _read_all(source) for source in sources(paths, lambda _: None)}


def _tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_gzip_tar_and_gzip_inside_tar_are_seen_through(tmp_path: Path) -> None:
    plain = bytes(range(256)) * 50
    (tmp_path / "a").write_bytes(plain)
    (tmp_path / "b").write_bytes(gzip.compress(plain[:100]) + gzip.compress(plain[100:]))
    members = {"x/one": plain, "two": gzip.compress(plain), ".hidden": plain}
    (tmp_path / "c").write_bytes(_tar(members))
    (tmp_path / "d").write_bytes(_tar(members, "w:gz"))
    assert _contents(files_of([tmp_path])) == {
        str(tmp_path / name): plain for name in ("a", "b", "c/x/one", "c/two", "d/x/one", "d/two")
    }


def test_a_cut_gzip_gives_what_it_has_and_where_it_ends(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(50_000)
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(content)[:30_000])
    files = sources([path], lambda _: None)
    source = next(files)
    read = _read_all(source)
    assert content.startswith(read)
    assert len(read) > 20_000
    assert source.damages() == [f"its gzip is cut off after {len(read):,} bytes of content"]


def _flip(data: bytes) -> bytes:
    return data[:25_000] + bytes(50) + data[25_050:]


@pytest.mark.parametrize("damage", [_flip, lambda data: data[:20_000]], ids=["flipped", "cut"])
def test_a_damaged_archive_keeps_its_first_members(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    content, other = random.Random(0).randbytes(15_000), random.Random(1).randbytes(15_000)
    path = tmp_path / "many.tar.gz"
    path.write_bytes(damage(gzip.compress(_tar({"first": content, "second": other}))))
    read, damages = {}, []
    for source in sources([path], lambda _: None):
        read[source.name] = _read_all(source)
        damages += source.damages()
    assert read[f"{path}/first"] == content
    assert any("gzip is" in text or "cut off" in text for text in damages)


def test_a_gzip_bomb_unfolds_in_small_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(30_000_000)))
    files = sources([path], lambda _: None)
    source = next(files)
    assert len(source.head) == 1 << 20
    assert max(map(len, iter(lambda: source.read(1 << 26), b""))) <= 4 << 20


def test_files_come_in_natural_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("rank10.json", "rank9.json", ".DS_Store", "sub/rank1.json", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(path.relative_to(tmp_path)) for path in files_of([tmp_path])]
    assert found == ["rank9.json", "rank10.json", "sub/rank1.json"]


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        files_of([tmp_path / "no"])
    with pytest.raises(UserError, match="empty folder"):
        files_of([tmp_path])
