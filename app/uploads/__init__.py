"""Uploads of trace files: received in chunks, resumable after any interruption, then imported."""
