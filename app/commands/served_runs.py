"""The runs that `rankscope serve` shows: those of a folder, or of a bucket through its mirror."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands.given_path import given_text
from app.commands.retention_option import keep_of
from ingest.errors import UserError
from ingest.object_store.address import is_address, parse_address

if TYPE_CHECKING:
    from app.runs.hub import Hub

DEFAULT_CACHE = "50GB"


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs and --cache-size."""
    what = "a folder of runs, or one run; also in S3-compatible storage: s3://BUCKET/PREFIX"
    parser.add_argument("runs", type=given_text, metavar="RUNS", help=what)
    what = (
        "runs from s3://: most that is kept of them on this machine, indexes included; what was "
        f"not used for longest goes (default: {DEFAULT_CACHE})"
    )
    parser.add_argument("--cache-size", metavar="SIZE", help=what)


@contextmanager
def served_hub(arguments: argparse.Namespace) -> Iterator[Hub]:
    """The hub over the runs, while the block runs; raises UserError."""
    keep = keep_of(arguments)
    if not is_address(arguments.runs):
        if arguments.cache_size:
            raise UserError("--cache-size is for runs from s3://; leave it out")
        from app.runs.hub import Hub  # after the checks: the server takes a second to import

        yield Hub(Path(arguments.runs), keep=keep)
        return
    address = parse_address(arguments.runs)
    if keep.is_bounded:
        raise UserError(
            "content of runs in s3:// is not deleted by this server; leave --keep-content and "
            "RANKSCOPE_KEEP_CONTENT out, and give the bucket a lifecycle rule"
        )
    if arguments.job_token:
        raise UserError(
            "ranks send their files only to a server of a folder of runs; leave --job-token out, "
            "or serve a folder"
        )
    most_bytes = _bytes_of(arguments.cache_size or DEFAULT_CACHE)
    from app.runs.bucket_hub import BucketHub
    from ingest.object_store.connection import mirror_of

    with mirror_of(address, most_bytes) as mirror:
        yield BucketHub(mirror)


def _bytes_of(text: str) -> float:
    """The size in a text; raises UserError."""
    from ingest.index.retention import Keep

    try:
        size = Keep.parse(text, "--cache-size")
    except ValueError:
        size = Keep()
    if size.num_bytes is None or size.seconds is not None or not size.num_bytes:
        raise UserError(f"--cache-size is {text[:40]!r}; give a size such as {DEFAULT_CACHE}")
    return size.num_bytes
