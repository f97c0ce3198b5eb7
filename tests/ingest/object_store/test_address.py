"""Addresses of S3-compatible storage, and the sentences for those that are none."""

from __future__ import annotations

import pytest

from ingest.errors import UserError
from ingest.object_store.address import is_address, parse_address


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://bucket", "bucket"),
        ("s3://bucket/", "bucket"),
        ("s3://my.bucket-1/runs", "my.bucket-1/runs"),
        ("s3://bucket/a/b c/", "bucket/a/b c"),
    ],
)
def test_an_address_has_a_bucket_and_a_prefix(text: str, path: str) -> None:
    address = parse_address(text)
    assert address.path == path
    assert str(address) == f"s3://{path}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("s3://AKIA:top/secret@bucket/runs", "credentials in the environment"),
        ("s3://bucket/runs?secret_key=secret", "of the form s3://BUCKET/PREFIX"),
        ("s3a://bucket/secret", "of the form s3://BUCKET/PREFIX"),
        ("s3:/bucket/secret", "of the form s3://BUCKET/PREFIX"),
        ("s3://AKIA:secret/runs", "no possible bucket"),
        ("s3:///secret", "no possible bucket"),
        ("s3://bucket/secret/../..", "a part . or .."),
        ("s3://bucket/secret//runs", "an empty part"),
        ("s3://bucket/secret\n", "a control character"),
        ("s3://bucket/" + "secret" * 100, "too long"),
    ],
)
def test_what_is_no_address_is_a_sentence_that_does_not_repeat_it(text: str, sentence: str) -> None:
    assert is_address(text)
    with pytest.raises(UserError, match=sentence) as raised:
        parse_address(text)
    assert "secret" not in str(raised.value)


def test_paths_are_no_addresses() -> None:
    assert not any(map(is_address, ("runs", "/s3/runs", "./s3:/x", "s3", "s3x://bucket")))
