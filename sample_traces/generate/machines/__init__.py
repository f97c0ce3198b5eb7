"""Metrics of the machines of generated jobs, second by second, with faults and with what looks like
one. No detector may import it, nor does it import one (tests/sample_traces/generate/machines).
"""
