"""What rank and server send each other: frames, requests, files, claims. Imports no torch."""
