"""Tests of the machines that a job is to run on: `torchrun ... -m trace_hooks.selftest`.

Every rank measures its device alone, then pairs of ranks and of hosts, then groups; rank 0 writes
what was measured as a run folder, which rankscope opens. Only `compute` and `communication` import
torch, when they measure; plan, formulas and what is written do without.
"""
