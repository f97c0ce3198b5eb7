"""A server that speaks S3 (moto, in a process of its own) behind a proxy that fails on request."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from tests.folders import REPO
from tests.ingest.object_store.s3.faulty_proxy import FaultyProxy
from tests.waiting import wait_until

SERVER = REPO / ".venv-s3/bin/moto_server"
BUCKET = "training"
SECRET = "a-secret-nobody-sees"


@pytest.fixture(scope="session")
def moto_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that speaks S3."""
    if not SERVER.exists():
        pytest.skip("make test-s3 has an environment with a server that speaks S3")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (tmp_path_factory.mktemp("moto") / "log").open("w") as log:
        command = [str(SERVER), "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: is_listening(port))
            yield port
        finally:
            process.terminate()
            process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxy(moto_port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyProxy]:
    """The proxy, which the environment names, in front of an empty bucket."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    proxy = FaultyProxy(moto_port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = bucket_files(moto_port)
    files.create_dir(BUCKET)
    files.delete_dir_contents(BUCKET)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.fixture
def files(moto_port: int, proxy: FaultyProxy) -> S3FileSystem:
    """The objects, past the proxy."""
    return bucket_files(moto_port)


def bucket_files(port: int) -> S3FileSystem:
    return S3FileSystem(
        access_key="other",
        secret_key="other",
        region="us-east-1",
        endpoint_override=f"http://127.0.0.1:{port}",
        allow_bucket_creation=True,
    )
