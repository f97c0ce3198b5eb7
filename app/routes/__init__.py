"""Routes of the server that answer with data: one module per view."""
