"""What the job prints."""
