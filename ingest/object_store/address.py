"""Addresses of runs in S3-compatible storage: s3://BUCKET/PREFIX.

Credentials are never part of one: whoever lists the processes of a machine, or reads the history of
a shell, would see them. So no sentence about a wrong address repeats it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ingest.errors import UserError

_SCHEME = "s3://"
_LOOKS_LIKE = re.compile(r"s3[an]?:/", re.IGNORECASE)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_LONGEST_PREFIX = 512
"""Bytes; a key has at most 1,024 in S3."""


@dataclass(frozen=True)
class StoreAddress:
    """`prefix`: parts separated by slashes, none at its ends; empty for a whole bucket."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.path}"

    @property
    def path(self) -> str:
        """Bucket and prefix, as file systems of pyarrow have them."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket


def is_address(text: str) -> bool:
    """Whether a text is meant as an address of S3-compatible storage, not as a path."""
    return _LOOKS_LIKE.match(text) is not None


def parse_address(text: str) -> StoreAddress:
    """The address in a text; raises UserError."""
    if "@" in text:
        raise UserError(
            "the address of the storage has an @ in it, as if with credentials, which others can "
            "read there: give s3://BUCKET/PREFIX, and credentials in the environment "
            "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in a profile (AWS_PROFILE)"
        )
    if not text.startswith(_SCHEME) or "?" in text or "#" in text:
        raise UserError(
            "the address of the storage is not of the form s3://BUCKET/PREFIX; settings such as "
            "AWS_ENDPOINT_URL and AWS_REGION are read from the environment"
        )
    bucket, _, rest = text.removeprefix(_SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise UserError(
            "the address of the storage names no possible bucket (3 to 63 lower-case letters, "
            "digits, dots and hyphens); give s3://BUCKET/PREFIX"
        )
    prefix = rest.strip("/")
    parts = prefix.split("/") if prefix else []
    is_long = len(prefix.encode(errors="replace")) > _LONGEST_PREFIX
    if is_long or any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise UserError(
            f"the prefix of the address below s3://{bucket} is too long, or has an empty part, a "
            "part . or .., or a control character; give s3://BUCKET/PREFIX"
        )
    return StoreAddress(bucket, prefix)
