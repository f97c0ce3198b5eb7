"""Tables of steps whose spans are not published one by one: what their time went to, as sums."""

from __future__ import annotations

from trace_hooks.schema.columns import TS, Table, integer, table, text

SUM_TABLES: tuple[Table, ...] = (
    table(
        "step_sums",
        "what a step of one rank went to, where its spans are not published one by one "
        "(TRACE_HOOKS_SPANS_EVERY). Since 1.9",
        TS,
        integer("compute_ns", "union of forward, backward, wgrad and optimizer, or of kernels"),
        integer("recompute_ns", "part of it that is repeated forward"),
        integer("comm_ns", "union of communication"),
        integer("exposed_comm_ns", "part of it without compute"),
        integer("data_wait_ns", "blocked on data"),
        integer("data_fetch_ns", "the loader's own work, hidden or not"),
        integer("other_ns", "gc, host work, checkpoints and copies next to nothing else"),
        integer("covered_ns", "union of all spans"),
        integer("eager_ns", "covered by spans of eager Python"),
        integer("compiled_ns", "covered by spans around compiled regions"),
        integer("graphed_ns", "covered by spans around graphed regions"),
        integer("imported_ns", "covered by imported spans"),
        integer("compute_cpu_ns", "CPU time of compute; -1 unknown"),
        integer("num_spans", "spans that began in the step"),
    ),
    table(
        "kind_sums",
        "the same by kind of span. Since 1.9",
        TS,
        text("kind", "as in spans"),
        integer("time_ns", "union of the time that spans of this kind own"),
        integer("exposed_ns", "part of it without compute on another track"),
        integer("self_cpu_ns", "CPU time without the spans inside them; -1 unknown"),
        integer("num_spans", "spans of this kind that began in the step"),
    ),
)
