"""What happens before the first step ends."""
