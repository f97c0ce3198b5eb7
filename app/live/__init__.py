"""Running jobs that are connected: their ranks, frames, files and commands."""
