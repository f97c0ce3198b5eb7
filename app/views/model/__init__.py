"""Data of the page Model: frames, hidden states, losses, perturbations, tensor statistics."""
