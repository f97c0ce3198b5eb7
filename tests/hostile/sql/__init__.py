"""Attacks on the SQL that people write: statements made by a grammar, and watched canaries."""
