"""Other tools on the same jobs. Their scripts run in separate virtual environments."""
