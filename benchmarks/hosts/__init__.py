"""Jobs whose ranks believe to be on several machines, so that a fault can be of one machine."""
