"""Why a tool could not do its work."""

from dataclasses import dataclass

from holdfast.errors import HoldfastError, InputError, StorageError, UnreachableError


@dataclass(frozen=True)
class Failure:
    """Why a tool could not do its work. It never says anything about the data."""

    reason: str
    is_mistake: bool = False  # of the operator
    is_away: bool = True

    def error(self) -> HoldfastError:
        if self.is_mistake:
            return InputError(self.reason)
        return UnreachableError(self.reason) if self.is_away else StorageError(self.reason)
