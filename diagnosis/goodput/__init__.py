"""Where a job began, and how much of its time was training."""
