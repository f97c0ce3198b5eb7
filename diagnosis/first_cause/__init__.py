"""First cause in logs: which line of which rank or host began a failure."""
