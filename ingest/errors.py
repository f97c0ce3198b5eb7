"""What the user did wrong: one family, caught once at the edge."""


class UserError(Exception):
    """One sentence that says what is wrong, where, and what to do. Exit code 2, no traceback."""
