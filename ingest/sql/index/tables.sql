-- Tables of an index database. The manifest and everything derived live in one file, so that one
-- transaction switches all of it. Times: Unix ns on the rank's own clock unless said otherwise.

-- one row per data file of the run; path relative to the run folder; problem: set aside, and why
CREATE TABLE IF NOT EXISTS files (
    path VARCHAR PRIMARY KEY, table_name VARCHAR NOT NULL, attempt INTEGER NOT NULL,
    rank_min INTEGER NOT NULL, rank_max INTEGER NOT NULL, step_min BIGINT NOT NULL,
    step_max BIGINT NOT NULL, ts_min BIGINT, ts_max BIGINT, num_rows BIGINT NOT NULL,
    num_bytes BIGINT NOT NULL, schema VARCHAR NOT NULL, tier INTEGER NOT NULL, problem VARCHAR,
    is_partial BOOLEAN NOT NULL
);
-- files that a merged one has replaced: never read again, deleted after a grace period
CREATE TABLE IF NOT EXISTS retired (path VARCHAR PRIMARY KEY, retired_ns BIGINT NOT NULL);
-- steps that retention.json takes out of the run, ends included
CREATE TABLE IF NOT EXISTS removed_steps (
    attempt INTEGER NOT NULL, first_step BIGINT NOT NULL, last_step BIGINT NOT NULL
);
-- files that have no row of a removed step, though their range of steps has one
CREATE TABLE IF NOT EXISTS trimmed (path VARCHAR PRIMARY KEY);
-- when something of a rank was seen last, on this machine's clock
CREATE TABLE IF NOT EXISTS arrivals (
    attempt INTEGER, rank INTEGER, arrived_ns BIGINT NOT NULL, PRIMARY KEY (attempt, rank)
);
-- ranks/*.json with the coordinates flat; NULL is unknown
CREATE TABLE IF NOT EXISTS ranks (
    attempt INTEGER, rank INTEGER, world_size INTEGER, host VARCHAR, device VARCHAR, pid BIGINT,
    started_ns BIGINT, ended_ns BIGINT, status VARCHAR, error VARCHAR,
    pp INTEGER, dp INTEGER, cp INTEGER, tp INTEGER, ep INTEGER,
    publish_every_ns BIGINT,  -- its rows may reach the run folder so much later; 0: at once
    PRIMARY KEY (attempt, rank)
);
-- the rows of steps, as far as windows and job metrics need them
CREATE TABLE IF NOT EXISTS step_rows (
    attempt INTEGER, rank INTEGER, step BIGINT, start_ns BIGINT, dur_ns BIGINT, loss DOUBLE,
    grad_norm DOUBLE, tokens DOUBLE, flops DOUBLE, lr DOUBLE, PRIMARY KEY (attempt, rank, step)
);
-- evaluations of the model, from spans of this kind that lie in no other of them; step: as in spans
CREATE TABLE IF NOT EXISTS evaluations (
    attempt INTEGER, rank INTEGER, begin_ns BIGINT, end_ns BIGINT, step BIGINT,
    PRIMARY KEY (attempt, rank, begin_ns)
);
-- process groups, once each; axis: in the layout as it is now, told_axis: as the files told it
CREATE TABLE IF NOT EXISTS group_members (
    attempt INTEGER, group_id BIGINT, name VARCHAR, description VARCHAR, axis VARCHAR,
    ranks INTEGER[], told_axis VARCHAR, PRIMARY KEY (attempt, group_id)
);
-- the layout.json that ranks and axes here follow; no row: there was none
CREATE TABLE IF NOT EXISTS corrected_layout (content VARCHAR);
-- clock estimates with the time each is valid from; aligned = t + offset + drift (t - ts); is_assumed: no
-- file has it, it follows from which hosts there are
CREATE TABLE IF NOT EXISTS clock_offsets (
    attempt INTEGER, rank INTEGER, valid_from_ns BIGINT, ts_ns BIGINT, offset_ns BIGINT,
    err_ns BIGINT, drift_ppb BIGINT, method VARCHAR, is_assumed BOOLEAN NOT NULL,
    PRIMARY KEY (attempt, rank, valid_from_ns)
);
-- ranks whose clock is recorded as unknown
CREATE TABLE IF NOT EXISTS unknown_clocks (
    attempt INTEGER, rank INTEGER, PRIMARY KEY (attempt, rank)
);
-- one row per (attempt, rank, step): what the time went to (docs/data-model.md)
CREATE TABLE IF NOT EXISTS step_rollup (
    attempt INTEGER, rank INTEGER, step BIGINT, begin_ns BIGINT, end_ns BIGINT, finished BOOLEAN,
    window_ns BIGINT, compute_ns BIGINT, recompute_ns BIGINT, comm_ns BIGINT,
    exposed_comm_ns BIGINT, data_wait_ns BIGINT, data_fetch_ns BIGINT, other_ns BIGINT,
    covered_ns BIGINT, eager_ns BIGINT, compiled_ns BIGINT, graphed_ns BIGINT, imported_ns BIGINT,
    bubble_ns BIGINT, bubble_late_ns BIGINT, bubble_other_ns BIGINT, compute_cpu_ns BIGINT,
    num_spans BIGINT
);
-- one row per (attempt, rank, step, kind)
CREATE TABLE IF NOT EXISTS kind_rollup (
    attempt INTEGER, rank INTEGER, step BIGINT, kind VARCHAR, time_ns BIGINT, exposed_ns BIGINT,
    self_cpu_ns BIGINT, num_spans BIGINT
);
-- the rows of step_sums, of steps whose spans are not published one by one; they replace what
-- step_rollup has of spans
CREATE TABLE IF NOT EXISTS summed_steps (
    attempt INTEGER, rank INTEGER, step BIGINT, compute_ns BIGINT, recompute_ns BIGINT,
    comm_ns BIGINT, exposed_comm_ns BIGINT, data_wait_ns BIGINT, data_fetch_ns BIGINT,
    other_ns BIGINT, covered_ns BIGINT, eager_ns BIGINT, compiled_ns BIGINT, graphed_ns BIGINT,
    imported_ns BIGINT, compute_cpu_ns BIGINT, num_spans BIGINT, PRIMARY KEY (attempt, rank, step)
);
-- the rows of kind_sums, which replace those of kind_rollup in the same way
CREATE TABLE IF NOT EXISTS summed_kinds (
    attempt INTEGER, rank INTEGER, step BIGINT, kind VARCHAR, time_ns BIGINT, exposed_ns BIGINT,
    self_cpu_ns BIGINT, num_spans BIGINT, PRIMARY KEY (attempt, rank, step, kind)
);
-- one row per (attempt, rank, step, group, peer): what its collectives cost and caused; peer: other
-- rank of its sends and receives, -1 for the collectives of all members; bus_bytes: moved by the
-- algorithm in bus_ns, the transfer of those instances where it is known; longest_ns: the longest
-- transfer; first_seq, last_seq: least and greatest of their numbers; end_late_ns: how much later than
-- the first member it saw the ends, summed over the num_ends instances that none can leave before all
-- have come, on the members' own clocks where not aligned
CREATE TABLE IF NOT EXISTS collective_rollup (
    attempt INTEGER, rank INTEGER, step BIGINT, group_id BIGINT, peer INTEGER,
    num_instances BIGINT, num_open BIGINT, num_unaligned BIGINT, wait_ns BIGINT,
    wait_caused_ns BIGINT, transfer_ns BIGINT, num_bytes BIGINT, bus_bytes BIGINT, bus_ns BIGINT,
    longest_ns BIGINT, first_seq BIGINT, last_seq BIGINT, num_ends BIGINT, end_late_ns BIGINT
);
-- what the indexer could not read or use, one sentence each, besides files.problem
CREATE TABLE IF NOT EXISTS problems (source VARCHAR, text VARCHAR);
-- which state of which database this is: a snapshot is up to date when it has the same
CREATE TABLE IF NOT EXISTS generation (identity VARCHAR, number BIGINT);
INSERT INTO generation SELECT uuid(), 0 WHERE NOT EXISTS (FROM generation);
