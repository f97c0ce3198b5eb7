"""The one generator of synthetic jobs with labelled faults: durations, max-plus replay, tables.

Shapes: S step, M micro-batch (on each chunk of an interleaved job), P pipeline stage, D data-
parallel, T tensor-parallel, R rank = PDT. All times are int64 nanoseconds. A step is, per rank:
data wait, parameter all-gather over D, the 1F1B pipeline (every forward and backward ends in an
all-reduce over T; sends and receives between stages), gradient reduce-scatter over D, gradient norm
over all ranks, optimizer.

Here lie what a job is (job, faults, durations), how healthy ones vary (habits, recorded_noise), and
two models of their own: StragglerAnalysis traces (straggler_trace) and phase logs in which waiting
hides (phase_log). `simulation` finds when everything happens, `tables` writes it as a run folder,
`labelled` draws jobs of several worlds at random and knows what a diagnosis should find.
"""
