"""Every table and file of a run folder, spelled once: the contract between writer and reader.

A run folder holds::

    run.json                      what the run is (RunInfo), written once by rank 0
    ranks/ATTEMPT-RANK.json       what one rank is (RankInfo), rewritten when more becomes known
    layout.json                   the layout as a user corrected it by hand (LayoutInfo)
    segments/TABLE-ATTEMPT-RANK-NUMBER.parquet   whole files, published by rename, never changed
    segments/bundle-ATTEMPT-RANK-NUMBER.zip      segments of a host's ranks, to be unpacked
    watched                       empty; a server touches it while somebody looks at the run
    retention.json                steps that were removed as too old or too much (ingest)
    pins.json                     links whose steps are not removed (ingest)
    compacted/                    merged segments (ingest)
    index/                        manifest and rollups (ingest)
    rings/ATTEMPT-RANK.ring       the last collectives that a lost rank entered (watchdog)
    stacks/ATTEMPT-RANK-NUMBER.txt  stacks of a silent rank (watchdog)
    watchdog-HOST.json            newest report on each rank of a host that had one (watchdog)
    attempts/ATTEMPT              id of the start that took this number for an attempt (hooks)
    job-secret, job-secret.sha256 prove to a server that a rank is of this run (job_claims)
    quarantine/                   received files that do not match the schema (app)
    agents/KEY                    empty; a launcher's key, by which a restart finds its run (hooks)
    kernels/ATTEMPT-rank-RANK-step-STEP.json.gz  torch.profiler's trace of some steps

Times are int64 nanoseconds of Unix UTC on the rank's own clock (`clock: absolute`); the table
`clocks` holds what to add to compare ranks. All rows of a Parquet file belong to one table.
"""

from __future__ import annotations

from trace_hooks.schema.columns import INT, TEXT, Column, Table
from trace_hooks.schema.files import (
    LayoutInfo,
    RankInfo,
    RunInfo,
    SegmentName,
    free_segment,
    rank_file_name,
)
from trace_hooks.schema.publishing import publish_json, publish_table
from trace_hooks.schema.tables import CONTENT_TABLES, TABLES, column_encodings, dictionary_columns
from trace_hooks.schema.version import (
    SCHEMA_MAJOR,
    SCHEMA_MINOR,
    SCHEMA_VERSION,
    VERSION_BYTES,
    check_version,
)
from trace_hooks.schema.words import (
    BEFORE_FIRST_STEP,
    COMM_KINDS,
    COMPUTE_KINDS,
    FRAME_KINDS,
    KINDS,
    MODES,
    OTHER_KINDS,
    SPAN_DEFAULTS,
    TENSORS,
    UNKNOWN,
)

__all__ = [
    "BEFORE_FIRST_STEP",
    "COMM_KINDS",
    "COMPUTE_KINDS",
    "CONTENT_TABLES",
    "FRAME_KINDS",
    "INT",
    "KINDS",
    "MODES",
    "OTHER_KINDS",
    "SCHEMA_MAJOR",
    "SCHEMA_MINOR",
    "SCHEMA_VERSION",
    "SPAN_DEFAULTS",
    "TABLES",
    "TENSORS",
    "TEXT",
    "UNKNOWN",
    "VERSION_BYTES",
    "Column",
    "LayoutInfo",
    "RankInfo",
    "RunInfo",
    "SegmentName",
    "Table",
    "check_version",
    "column_encodings",
    "dictionary_columns",
    "free_segment",
    "publish_json",
    "publish_table",
    "rank_file_name",
]
