"""A rank's connection to a server: sends frames and files, carries out commands."""
