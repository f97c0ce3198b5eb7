"""One HTML file of a view and its finding, that opens offline and is sent to others."""
