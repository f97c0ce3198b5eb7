"""Pure analysis: tables in, findings out."""
