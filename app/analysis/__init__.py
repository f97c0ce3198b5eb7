"""What is computed from a whole run for several pages: diagnosis, key figures, live status."""
