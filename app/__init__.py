"""The command line and, on top of it, the dashboard."""
