"""The source that changes weights and activations for some steps on request."""
