"""Real training scripts."""
