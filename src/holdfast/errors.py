"""The errors of Holdfast. Each message says what happened, to which thing, and what to do.

HoldfastError                  could not run: the command line prints it and exits with 2
├── InputError                 what the user gave can't be used
│   ├── MalformedError         a file or message that is not in its canonical encoding
│   ├── NotFoundError          what was asked for does not exist
│   ├── ConflictError          it can't be done in the present state
│   └── PassphraseError        a key file that the given passphrase does not open
├── BusyError                  too much is going on at once: try again
├── StorageError               bytes could not be read or written
├── LedgerError                a ledger could not be reached, or did not finish a transaction
├── NodeError                  a storage node's answer makes no sense
│   ├── UnreachableError       nothing could be delivered to it
│   └── UnansweredError        it took a request and gave no whole answer
└── RefusedError               allowed by the machine, forbidden by the protocol

A finding (an audit failed, a log does not verify) is a result, not an error: it is returned,
and the command line exits with 1.
"""


class HoldfastError(Exception):
    """Anything that keeps Holdfast from doing what it was asked."""


class InputError(HoldfastError):
    """What the user gave can't be used."""


class MalformedError(InputError):
    """A file or message that is not in its canonical encoding."""


class NotFoundError(InputError):
    """What was asked for does not exist."""


class ConflictError(InputError):
    """It can't be done in the present state."""


class PassphraseError(InputError):
    """A key file that the given passphrase does not open."""


class BusyError(HoldfastError):
    """Too much is going on at once: try again."""


class StorageError(HoldfastError):
    """Bytes could not be read or written."""


class RefusedError(HoldfastError):
    """Allowed by the machine, forbidden by the protocol."""


class LedgerError(HoldfastError):
    """A ledger could not be reached, or did not take or finish a transaction."""


class NodeError(HoldfastError):
    """A storage node's answer makes no sense."""


class UnreachableError(NodeError):
    """Nothing could be delivered to a storage node: no connection was made."""


class UnansweredError(NodeError):
    """A storage node took a request and gave no whole answer."""
