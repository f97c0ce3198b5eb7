"""Connected running jobs: their ranks, frames, files and commands."""
