"""Stores a run folder in a bucket, once or as it grows."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from app import interrupts
from app.commands.progress import storing_progress
from ingest.object_store.object_store import ObjectStore, StoreError
from ingest.object_store.upload import RunUpload
from ingest.run_folder.rank_files import RankFiles
from ingest.run_folder.run_files import read_run_info

FOLLOW_S = 5.0
"""Between two looks at the folder; after a failed one it takes longer."""
_RETRY_S = 30.0


def store_run_folder(store: ObjectStore, folder: Path, follow: bool) -> bool:
    """Store a run; whether a part of it was there before. `follow`: go on until it has ended, also
    where the storage fails meanwhile. Raises UserError.
    """
    with RunUpload(store, folder) as upload, storing_progress() as progress:
        while True:
            is_last = not follow or has_ended(folder)
            pause_s = FOLLOW_S
            try:
                upload.look(progress)
                if is_last:
                    return upload.is_known
            except StoreError as error:
                if not follow:
                    raise
                print(f"rankscope import: {error}; it is tried again", file=sys.stderr, flush=True)
                pause_s = _RETRY_S
            threading.Event().wait(pause_s)
            interrupts.check()


def has_ended(folder: Path) -> bool:
    """Whether all ranks of the newest attempt have ended, or the run was imported: it grows no
    more.
    """
    if read_run_info(folder)["source"] != "hooks":
        return True
    ranks, _ = RankFiles(folder).read()
    newest = max((info["attempt"] for info in ranks), default=0)
    ended = [bool(info.get("end")) for info in ranks if info["attempt"] == newest]
    world_size = max((info["world_size"] for info in ranks if info["attempt"] == newest), default=1)
    return all(ended) and len(ended) >= world_size
