"""The jobs: scripts as users write them, which report (report.py) what they computed."""
