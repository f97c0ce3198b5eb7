"""Tables of a job outside its steps: its start-up, and its checkpoints."""

from __future__ import annotations

from trace_hooks.schema.columns import TS, Table, integer, table, text

PHASES = (
    "before",
    "imports",
    "hooks",
    "rendezvous",
    "groups",
    "communication",
    "device",
    "model",
    "restore",
    "compile",
    "data",
    "other",
)
"""What a rank does before its first step ends: what nobody saw before the hooks (imports, as a
rule), imports modules, starts the hooks, meets the other ranks, makes process groups, communicates
(which is mostly waiting), opens its device, builds the model, reads a checkpoint, compiles, waits
for its first batch, runs other code."""

ACTIONS = ("save", "background", "read")
"""What is done with a checkpoint: a save that blocks the caller, the part of an asynchronous save
that does not, a read."""

JOB_TABLES: tuple[Table, ...] = (
    table(
        "startup",
        "a stretch of what the training thread of a rank did between the start of its process and "
        "the end of its first step; a long one has several rows. Since 1.7",
        TS,
        integer("dur_ns", "wall time"),
        integer("cpu_ns", "CPU time of the process in it; -1 unknown"),
        text("phase", f"{', '.join(PHASES)}"),
        text(
            "what",
            "what ran, and where in the job's own code; F inside G: own code that G has called",
        ),
        text(
            "how",
            "measured: between two points in the hooks' own code; sampled: the stack was looked at "
            "five times a second; process: from the start of the process, as /proc has it",
        ),
    ),
    table(
        "checkpoints",
        "a save or a read of a checkpoint, as its rank saw it. Since 1.7",
        TS,
        integer("dur_ns", "wall time"),
        text("action", f"{', '.join(ACTIONS)}; background: after async_save has returned"),
        text("name", "torch.save, distributed.async_save, torch.load, ..."),
        integer("num_bytes", "size of the file, or of this rank's tensors in it; -1 unknown"),
        text("state", "completed or failed"),
    ),
)
