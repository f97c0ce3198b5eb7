"""Detectors of what a data loader does wrong besides being late: its mixture, its memory."""
