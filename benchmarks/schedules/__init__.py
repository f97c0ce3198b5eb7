"""Predicted pipeline schedules against jobs that run them."""
