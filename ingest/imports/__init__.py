"""Trace files become a run folder: processes read them into parts, one import joins these."""
