"""The browser's side of an upload, in process."""

from __future__ import annotations

import json
import time

UPLOADS_FOLDER = ".uploads"
TUS = {"tus-resumable": "1.0.0"}
STREAM = {**TUS, "content-type": "application/offset+octet-stream"}


def trace(rank, num_steps=2):
    """A small torch.profiler trace."""
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{step}",
            "pid": 1,
            "tid": 1,
            "ts": 1000.0 * step,
            "dur": 900.0,
        }
        for step in range(num_steps)
    ]
    return json.dumps(
        {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2},
            "traceEvents": events,
        }
    ).encode()


def listed(*files):
    return {"files": [{"name": name, "size": len(content)} for name, content in files]}


def create(client, *files, **headers):
    return client.request("POST", "/api/uploads", json=listed(*files), headers=TUS | headers)


def begun(client, *files):
    """Address of a new upload."""
    answer = create(client, *files)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"uploads/{answer.json()['id']}"
    return f"/api/{answer.headers['location']}"


def patch(client, url, offset, content, **headers):
    sent_headers = {**STREAM, "upload-offset": str(offset), **headers}
    return client.request("PATCH", url, content=content, headers=sent_headers)


def offset_of(client, url):
    answer = client.request("HEAD", url, headers=TUS)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    return int(answer.headers["upload-offset"])


def ended(client, url):
    """The server's status of it once its import has ended."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = client.get(url).json()
        if answer["state"] in ("done", "failed"):
            return answer
        time.sleep(0.02)
    raise AssertionError(f"the import did not end: {answer}")


def when(client, url, state):
    """The server's status of it once it is in this state."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = client.get(url).json()
        if answer["state"] == state:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"never {state}: {answer}")


def imported(client, *files):
    url = begun(client, *files)
    answer = patch(client, url, 0, b"".join(content for _, content in files))
    assert answer.status_code == 204, answer.text
    return ended(client, url)


def left(runs):
    """Names below the place of uploads, and of imports that were not finished."""
    place = runs / UPLOADS_FOLDER
    unfinished = [path.name for path in runs.glob(".import-*")]
    return sorted(path.name for path in place.iterdir()) + unfinished if place.is_dir() else []


def endless(_paths, _folder, progress, *_):
    """An import that never ends by itself."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        progress(1, 2)
        time.sleep(0.01)
    raise AssertionError("nobody cancelled")
