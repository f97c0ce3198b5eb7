"""Why an upload cannot continue: one sentence each, with its HTTP status."""

from __future__ import annotations

import errno

from ingest.errors import UserError


class UploadError(UserError):
    """An upload cannot continue; `status` is the HTTP status."""

    status = 400


class Unknown(UploadError):
    """There is no such upload, or not any more."""

    status = 404


class WrongOffset(UploadError):
    """The bytes are not the next ones of the stream."""

    status = 409


class WrongVersion(UploadError):
    """The client uses another protocol version."""

    status = 412


class TooBig(UploadError):
    """More bytes than the server accepts, or than the list of files declared."""

    status = 413


class WrongType(UploadError):
    """Another media type than the protocol's."""

    status = 415


class Busy(UploadError):
    """Another connection is sending the same upload."""

    status = 423


class TooMany(UploadError):
    """More uploads than the server allows."""

    status = 429


class Stopping(UploadError):
    """The server is stopping, or no connection is free."""

    status = 503


class NoRoom(UploadError):
    """The disk is full or may not be written."""

    status = 507


def no_room(error: OSError) -> NoRoom:
    """The sentence for an error of the disk."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom("the disk of the server is full; make room there and continue")
    return NoRoom(f"the folder of runs cannot be written ({error.strerror}); check its permissions")
