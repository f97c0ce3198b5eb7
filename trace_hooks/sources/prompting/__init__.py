"""The source that runs a prompt through the model between two training steps."""
