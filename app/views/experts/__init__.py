"""What the page Experts shows: loads of experts, their balance over ranks, times, ping-pong."""
