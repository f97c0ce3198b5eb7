"""Model FLOPs utilisation: where the rest of the time goes, and since when it is more."""
