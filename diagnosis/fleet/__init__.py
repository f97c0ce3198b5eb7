"""All runs of a folder together: how much is wasted, by what, and which machines are slow again."""
