"""One module per verb: add_arguments(parser) and run(arguments) -> exit code."""
