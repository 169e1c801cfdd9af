"""Which code a node answers with for each kind of error."""

from starlette.requests import ClientDisconnect

from holdfast.errors import BusyError, HoldfastError, InputError
from holdfast.http_errors import ErrorCodes
from holdfast.node.objects import LostError
from holdfast.node.storage_errors import public_message
from holdfast.node.wire import Code

ERRORS = ErrorCodes(
    Code.MALFORMED,
    {
        BusyError: Code.BUSY,
        InputError: Code.MALFORMED,
        LostError: Code.DAMAGED,
        HoldfastError: Code.STORAGE,
        ClientDisconnect: Code.SLOW,
    },
    {Code.NOT_FOUND: 404, Code.METHOD: 405},
    public_message,
)
