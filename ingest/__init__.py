"""Readers, run store, manifest, index and questions."""
