"""Other tools on the same jobs. Scripts of theirs run in virtual environments of their own."""
