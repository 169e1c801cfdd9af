"""The owner's side: a home, files put on nodes and had back, audits of one holding, repair."""

from holdfast.owner.audit import Finding, Outcome, resume, run_audit, sample_cap
from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord
from holdfast.owner.download import Fetched, get
from holdfast.owner.enrolment import add_holding
from holdfast.owner.fingerprint import Original
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home, catalogue_in, check_home, check_new
from holdfast.owner.removal import remove
from holdfast.owner.repair import (
    Copy,
    Damaged,
    LocalCopy,
    find_damage,
    mend,
    put_back,
    spans_of,
    still_damaged,
)
from holdfast.owner.replica import Replica
from holdfast.owner.replica_sources import Others, other_replicas
from holdfast.owner.upload import Put, check_source, put

__all__ = [
    "Catalogue",
    "Copy",
    "Damaged",
    "Fetched",
    "FileRecord",
    "Finding",
    "Holding",
    "HoldingRecord",
    "Home",
    "LocalCopy",
    "Original",
    "Others",
    "Outcome",
    "Put",
    "Replica",
    "add_holding",
    "catalogue_in",
    "check_home",
    "check_new",
    "check_source",
    "find_damage",
    "get",
    "mend",
    "other_replicas",
    "put",
    "put_back",
    "remove",
    "resume",
    "run_audit",
    "sample_cap",
    "spans_of",
    "still_damaged",
]
