"""The owner's side: a home, files put on nodes and fetched back, audits of one holding, repair."""

from holdfast.owner.audit import Finding, LedgerVerdict, resume, run_audit, sample_cap
from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord
from holdfast.owner.download import DownloadResult, get
from holdfast.owner.enrolment import add_holding
from holdfast.owner.fingerprint import Original
from holdfast.owner.holding import Holding
from holdfast.owner.home import Home, catalogue_in, check_home, check_new
from holdfast.owner.operations import (
    Repair,
    RepairedFile,
    audit_holding,
    put_file,
    repair_holding,
    replicas,
    select_holdings,
)
from holdfast.owner.removal import remove
from holdfast.owner.repair import (
    Copy,
    DamagedFile,
    LocalCopy,
    find_damage,
    recheck_blocks,
    repair_file,
    restore_blocks,
    spans_of,
)
from holdfast.owner.replica import Replica
from holdfast.owner.replica_sources import ReplicaSources, other_replicas
from holdfast.owner.upload import UploadResult, check_source, put

__all__ = [
    "Catalogue",
    "Copy",
    "DamagedFile",
    "DownloadResult",
    "FileRecord",
    "Finding",
    "Holding",
    "HoldingRecord",
    "Home",
    "LedgerVerdict",
    "LocalCopy",
    "Original",
    "Repair",
    "RepairedFile",
    "Replica",
    "ReplicaSources",
    "UploadResult",
    "add_holding",
    "audit_holding",
    "catalogue_in",
    "check_home",
    "check_new",
    "check_source",
    "find_damage",
    "get",
    "other_replicas",
    "put",
    "put_file",
    "recheck_blocks",
    "remove",
    "repair_file",
    "repair_holding",
    "replicas",
    "restore_blocks",
    "resume",
    "run_audit",
    "sample_cap",
    "select_holdings",
    "spans_of",
]
