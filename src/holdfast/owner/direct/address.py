"""Addresses of direct holdings: which data they are, and where their tags lie."""

import os
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from holdfast.errors import InputError

_SCHEMES = {"direct": False, "direct+beside": True}
TAGS_FOLDER = ".holdfast"  # in the data's storage, for tags beside the data


@dataclass(frozen=True)
class DirectAddress:
    """Data at a path or an fsspec address; `beside` says that their tags lie there as well."""

    data: str
    beside: bool = False

    @classmethod
    def of(cls, text: str, *, beside: bool = False) -> Self:
        """Return the address that an operator gives."""
        if "://" not in text or text.startswith("file://"):
            path = os.path.abspath(text.removeprefix("file://"))  # noqa: PTH100 - without ".."
            return cls(path, beside)
        if urlsplit(text).password is not None:
            raise InputError(
                "an address must not contain a password: it would be shown and logged. Give it by "
                "the variables or files that the storage's library reads"
            )
        return cls(text.rstrip("/"), beside)

    @classmethod
    def parse(cls, url: str) -> Self | None:
        """Return the address of a direct holding, given its URL; None if it is on a node."""
        scheme, _, data = url.partition(":")
        return cls(data, _SCHEMES[scheme]) if scheme in _SCHEMES else None

    @property
    def url(self) -> str:
        """What stands in the catalogue where other holdings have the URL of their node."""
        return f"{'direct+beside' if self.beside else 'direct'}:{self.data}"

    @property
    def tags(self) -> str:
        """Where tags beside the data lie."""
        return f"{self.data}/{TAGS_FOLDER}"


def is_direct(url: str) -> bool:
    return DirectAddress.parse(url) is not None
