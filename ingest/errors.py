"""What the user did wrong: one family, caught once at the edge."""

import errno

from trace_hooks.protocol.plain_text import printable as printable  # for those who show text


class UserError(Exception):
    """One sentence that says what is wrong, where, and what to do. Exit code 2, no traceback.

    Names in it may come from anywhere: it holds no control characters.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class DiskFull(UserError):
    """There is no room to write; the same may work once there is."""


def disk_error(where: str, error: OSError) -> UserError:
    """One sentence for an error of the disk where something cannot be written."""
    kind = DiskFull if is_full(error) else UserError
    remedy = (
        "make room there" if kind is DiskFull else "check its permissions, or give another folder"
    )
    return kind(f"{where} cannot be written ({error.strerror or error}); {remedy}")


def is_full(error: OSError) -> bool:
    """Whether a disk, or somebody's share of it, has no room left."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
