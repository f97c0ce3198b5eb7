"""What one picture or answer needs, computed from a run: no HTML, no HTTP, no figures."""
