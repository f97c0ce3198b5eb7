"""Spark as a second engine: an indexing pass, and the heaviest questions, on many machines."""
