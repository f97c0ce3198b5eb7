"""What the page Efficiency shows."""
