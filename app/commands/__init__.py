"""The verbs: a module each, with add_arguments(parser) and run(arguments) -> exit code.

Hence so many files; those that are not a verb hold the options and the progress that verbs share.
"""
