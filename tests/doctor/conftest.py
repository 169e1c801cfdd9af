"""A home with two nodes and a desk to run commands at."""

from tests.support.owner_site import desk, site, world

__all__ = ["desk", "site", "world"]
