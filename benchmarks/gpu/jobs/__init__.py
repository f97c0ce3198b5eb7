"""Jobs that the parts run in processes of their own, where one process could not show the thing."""
