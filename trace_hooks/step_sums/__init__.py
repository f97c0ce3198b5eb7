"""What the time of a step went to, from its spans: computed by the index, and in a rank of the
steps whose spans it does not publish.
"""
