"""A view as one HTML file: its name and its headers."""

from __future__ import annotations

from app.share.shared_file import file_name
from tests.app.server.asgi import Client


def test_the_name_has_only_harmless_characters() -> None:
    assert file_name("job", None) == "rankscope-job.html"
    assert file_name('a"/../b', "slow: rank 5") == "rankscope-a-..-b-slow-rank-5.html"


def test_the_file_is_a_download(client: Client) -> None:
    answer = client.get("/api/run/job/share?page=nonsense")
    assert answer.status == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="rankscope-job')
    assert answer.body.startswith(b"<!DOCTYPE html>")
