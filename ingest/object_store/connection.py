"""Connects to S3-compatible storage, with what the environment says about it.

Credentials come from the environment or a profile of AWS, as its own tools read them. pyarrow does
not read AWS_ENDPOINT_URL, so this module does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import urlsplit

from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

from ingest.errors import UserError
from ingest.object_store.address import StoreAddress
from ingest.object_store.cache import cache_folder
from ingest.object_store.mirror import Mirror
from ingest.object_store.object_store import ObjectStore

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_TRIES = 5
"""Of one request, with growing pauses; who follows a run then tries again later."""
_CONNECT_S, _REQUEST_S = 10.0, 30.0


def mirror_of(address: StoreAddress, most_bytes: float) -> Mirror:
    """A mirror of the runs at an address, in the user's cache; raises UserError."""
    cache = cache_folder(str(address), _endpoint() or "")
    return Mirror(connected(address), cache, most_bytes)


def connected(address: StoreAddress) -> ObjectStore:
    """The storage at an address; raises UserError for a wrong endpoint, and asks for nothing."""
    endpoint, region = _endpoint(), _first_of(_REGIONS)
    if endpoint is None and region is None:
        with suppress(OSError):  # AWS then says where the bucket is
            region = resolve_s3_region(address.bucket)
    filesystem = S3FileSystem(
        endpoint_override=endpoint,
        region=region or ("us-east-1" if endpoint else None),
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_TRIES),
        allow_delayed_open=True,  # a small file is one request, not three
    )
    return ObjectStore(filesystem, address.path, str(address))


def _endpoint() -> str | None:
    text = _first_of(ENDPOINTS)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        is_right = parts.scheme in ("http", "https") and parts.hostname and "@" not in text
        _ = parts.port  # raises if it is not a number
    except ValueError:
        is_right = False
    if not is_right:
        raise UserError(
            "AWS_ENDPOINT_URL is no address of a server; give one such as "
            "https://storage.example.org:9000, without credentials in it"
        )
    return text.rstrip("/")


def _first_of(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
