"""Generator of log folders of failed jobs, with the truth about each: it shares nothing with the
detector that it is made to test.
"""
