"""Two nodes for all tests of the owner's room, and a fresh home for each."""

from tests.support.owner_site import desk, site, world

__all__ = ["desk", "site", "world"]
