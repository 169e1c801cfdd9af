"""What a node tells its owners about trouble with its storage: no path, no address, no bucket."""

import logging

from holdfast import atomic
from holdfast.errors import StorageError

DISK_FULL = "the node's disk is full"
UNREADABLE = "the node can't read or write what it stores"
log = logging.getLogger(__name__)


def public_message(error: Exception) -> str:
    """Return the message for an owner; the node's own log has the whole one."""
    if not isinstance(error, StorageError):
        return str(error)
    log.warning("%s", error)
    return DISK_FULL if atomic.is_disk_full(error) else UNREADABLE
