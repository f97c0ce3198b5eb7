"""What keeps an upload from going on: one sentence each, with its HTTP status."""

from __future__ import annotations

import errno

from ingest.errors import UserError


class UploadError(UserError):
    """An upload cannot go on; `status` is how HTTP says so."""

    status = 400


class Unknown(UploadError):
    """No such upload, or none any more."""

    status = 404


class WrongOffset(UploadError):
    """The bytes are not the next ones."""

    status = 409


class WrongVersion(UploadError):
    """Another protocol."""

    status = 412


class TooBig(UploadError):
    """More bytes than the server takes, or than were told."""

    status = 413


class WrongType(UploadError):
    """Another media type than the protocol's."""

    status = 415


class Busy(UploadError):
    """Another connection is sending the same upload."""

    status = 423


class TooMany(UploadError):
    """More uploads than the server keeps."""

    status = 429


class Stopping(UploadError):
    """The server ends."""

    status = 503


class NoRoom(UploadError):
    """The disk is full or may not be written."""

    status = 507


def no_room(error: OSError) -> NoRoom:
    """The sentence for what the disk said."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoRoom("the disk of the server is full; make room there and go on")
    return NoRoom(f"the folder of runs cannot be written ({error.strerror}); check its rights")
