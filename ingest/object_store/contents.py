"""Which objects below a run's prefix are files of a run.

Their names may come from anywhere, and become names on this machine's disk: only names that a run
folder may have are taken. An index stored with them is not read: it is built from the files.
"""

from __future__ import annotations

import re

from ingest.run_folder.retention_file import RETENTION_FILE
from ingest.run_folder.run_files import LAYOUT_FILE, RUN_FILE
from ingest.run_folder.run_paths import DATA
from trace_hooks.schema.bundles import BundleName

_AT_THE_TOP = (RUN_FILE, LAYOUT_FILE, RETENTION_FILE)
_RANK_FILE = re.compile(r"[0-9]{4,}-[0-9]{5,}\.json")
_DATA_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.parquet")
"""The index reads files of any name, and says what is wrong with those that are none of a run."""
_LONGEST_NAME = 200
_LONGEST_RUN = 200


def is_run_name(name: str) -> bool:
    """Whether a part of a key can be the name of a run's folder."""
    is_short = 0 < len(name.encode(errors="replace")) <= _LONGEST_RUN
    return is_short and name[0] != "." and name.isprintable() and not set("/\\") & set(name)


def is_of_run(key: str) -> bool:
    """Whether a key, relative to the run's prefix, is that of a file of a run."""
    folder, _, name = key.rpartition("/")
    if len(name) > _LONGEST_NAME or not name.isascii():
        return False
    if folder == "":
        return name in _AT_THE_TOP
    if folder == "ranks":
        return _RANK_FILE.fullmatch(name) is not None
    if folder == "segments" and BundleName.parse(name) is not None:
        return True
    return folder in DATA and _DATA_FILE.fullmatch(name) is not None


def is_merged(key: str) -> bool:
    """Whether a file of a run has the rows of others, which it names."""
    return key.startswith("compacted/")


def may_change(key: str) -> bool:
    """Whether a file of a run may be written again: those that describe it may, its data never."""
    return key.endswith(".json")
