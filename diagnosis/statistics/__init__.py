"""What several detectors compute: noise of peers, episodes, onsets, phase and transfer times."""
