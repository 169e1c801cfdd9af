"""The audit primitive: a pairing-free homomorphic MAC. No network, no database."""

from holdfast.pdp.challenge import Challenge, draw_challenge
from holdfast.pdp.inventory import FileEntry, Inventory
from holdfast.pdp.keyfile import read_key, write_key
from holdfast.pdp.keys import PublicKey, SecretKey
from holdfast.pdp.localisation import Damage, locate
from holdfast.pdp.proof import MapParts, Proof, Prover, StoredFile
from holdfast.pdp.readers import Location
from holdfast.pdp.tagfile import TagFile, TagHeader
from holdfast.pdp.tagging import tag_file
from holdfast.pdp.verification import (
    Expectation,
    Target,
    expect,
    target_of,
    verify_in_public,
    verify_with_key,
)

__all__ = [
    "Challenge",
    "Damage",
    "Expectation",
    "FileEntry",
    "Inventory",
    "Location",
    "MapParts",
    "Proof",
    "Prover",
    "PublicKey",
    "SecretKey",
    "StoredFile",
    "TagFile",
    "TagHeader",
    "Target",
    "draw_challenge",
    "expect",
    "locate",
    "read_key",
    "tag_file",
    "target_of",
    "verify_in_public",
    "verify_with_key",
    "write_key",
]
