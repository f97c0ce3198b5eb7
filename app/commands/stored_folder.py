"""Stores a run folder in a bucket, once or as it grows."""

from __future__ import annotations

import math
import sys
import threading
import time
from pathlib import Path

from app import interrupts
from app.commands.progress import storing_progress
from ingest.object_store.object_store import ObjectStore, StoreError
from ingest.object_store.upload import OnStored, RunUpload
from ingest.run_folder.rank_files import RankFiles
from ingest.run_folder.run_files import read_run_info

FOLLOW_S = 5.0
"""Between two looks at the folder; after a failed one it takes longer."""
_RETRY_S = 30.0
_SETTLE_S = 30.0
"""After all ranks have finished: collectors write the last rows then, and a restart may begin."""
_QUIET_S = 600.0
"""Ranks that failed or were killed may be started again; a job that lives writes heartbeats."""


def store_run_folder(store: ObjectStore, folder: Path, follow: bool) -> bool:
    """Store a run; whether a part of it was there before. `follow`: go on until it has ended, also
    where the storage fails meanwhile. Raises UserError.
    """
    with RunUpload(store, folder) as upload, storing_progress() as progress:
        if follow:
            _follow(upload, folder, progress)
        else:
            upload.look(progress)
        return upload.is_known


def _follow(upload: RunUpload, folder: Path, progress: OnStored) -> None:
    """Store what is new until all ranks have finished, or nothing is written any more."""
    ranks, finished_s = RankFiles(folder), math.inf
    while True:
        num_new, pause_s = 0, FOLLOW_S
        finished_s = min(finished_s, time.monotonic()) if has_finished(ranks) else math.inf
        may_end = time.monotonic() - finished_s >= _SETTLE_S or upload.quiet_s >= _QUIET_S
        try:
            num_new = upload.look(progress)
        except StoreError as error:
            if may_end and upload.quiet_s >= _QUIET_S:
                raise
            _say(f"{error}; it is tried again")
            may_end, pause_s = False, _RETRY_S
        if may_end and not num_new:
            break
        threading.Event().wait(pause_s)
        interrupts.check()
    if finished_s == math.inf:
        _say(
            f"nothing was written into {folder} for {_QUIET_S / 60:.0f} minutes, and not all ranks "
            "have finished: the run is stored as it is; repeat the command if its job goes on"
        )


def _say(text: str) -> None:
    print(f"rankscope import: {text}", file=sys.stderr, flush=True)


def has_finished(ranks: RankFiles) -> bool:
    """Whether all ranks of the newest attempt have finished, or the run was imported: it grows no
    more. Ranks that failed may be started again.
    """
    run_info = read_run_info(ranks.run_folder)
    if run_info["source"] != "hooks":
        return not run_info.get("importing")
    infos, _ = ranks.read()
    newest = [info for info in infos if info["attempt"] == infos[-1]["attempt"]]
    statuses = [(info.get("end") or {}).get("status") for info in newest]
    world_size = max((info["world_size"] for info in newest), default=1)
    return set(statuses) == {"finished"} and len(statuses) >= world_size
