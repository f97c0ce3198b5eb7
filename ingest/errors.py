"""What the user did wrong: one family, caught once at the edge."""


class UserError(Exception):
    """One sentence that says what is wrong, where, and what to do. Exit code 2, no traceback.

    Names in it may come from anywhere: it holds no control characters.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


def printable(text: str) -> str:
    r"""The text with everything that is not plainly visible escaped (\n, \x1b, \u202e, ...).

    File names, hosts and span names could otherwise move a terminal's cursor or rewrite its title.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
