"""Files of sessions and tokens: written for this user alone, damaged ones grant nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from app.access.access_files import LONGEST_S, AccessFiles, ServedToken, Session, digest_of


@pytest.fixture
def files(tmp_path: Path) -> AccessFiles:
    files = AccessFiles(tmp_path / "access")
    files.make()
    return files


def test_only_this_user_may_open_the_folder_and_its_files(files: AccessFiles) -> None:
    files.add(Session(digest_of("id"), digest_of("secret"), time.time()))
    assert files.folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in files.folder.iterdir()] == [0o600]


def test_entries_are_listed_until_they_end(files: AccessFiles) -> None:
    now_s = time.time()
    lasting = Session(digest_of("a"), digest_of("t"), now_s)
    ended = Session(digest_of("b"), digest_of("t"), now_s - LONGEST_S - 1)
    for entry in (lasting, ended, ServedToken(digest_of("t"), "viewer", "http://x/", now_s)):
        files.add(entry)
    assert files.sessions() == {lasting.digest: lasting}
    assert list(files.tokens()) == [digest_of("t")]
    files.remove_ended()
    assert sum(path.name.startswith("session-") for path in files.folder.iterdir()) == 1


def test_a_revoked_token_is_no_longer_listed_as_served(files: AccessFiles) -> None:
    files.add(ServedToken(digest_of("t"), "viewer", "http://x/", time.time()))
    files.revoke(digest_of("t"))
    assert files.revoked() == {digest_of("t")}
    assert files.tokens() == {}


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{}", '{"digest": "other"}'])
def test_a_damaged_file_grants_nothing(files: AccessFiles, text: str) -> None:
    (files.folder / f"session-{digest_of('x')}").write_text(text)
    assert files.sessions() == {}
    files.remove_ended()
    assert list(files.folder.iterdir()) == []
