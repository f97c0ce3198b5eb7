"""Parts of scale.py."""
