"""The owner's side: a home, files put on nodes and fetched back, and repair."""

from holdfast.owner.catalogue import Catalogue, FileRecord, HoldingRecord, Removal
from holdfast.owner.download import DownloadResult, get
from holdfast.owner.enrolment import add_holding
from holdfast.owner.fingerprint import Original
from holdfast.owner.holding import Holding, HoldingLostError
from holdfast.owner.home import Home, catalogue_in, check_home, check_new, discard_tags
from holdfast.owner.localisation import DamagedFile, DamageSearch, find_damage
from holdfast.owner.losses import FileLoss
from holdfast.owner.names import check_name, list_folder, own_name
from holdfast.owner.operations import (
    OnProgress,
    OnUnreachable,
    RepairedFile,
    RepairProgress,
    check_sources,
    list_files,
    put_file,
    repair_holding,
    replicas,
    select_for_put,
    select_holdings,
)
from holdfast.owner.removal import (
    RemovalPlan,
    delete_pending,
    describe_removal,
    plan_removal,
    remove,
)
from holdfast.owner.repair import Copies, Copy, FileRepair, LocalCopy, repair_file
from holdfast.owner.replica import Replica
from holdfast.owner.replica_sources import ReplicaSources, other_replicas
from holdfast.owner.upload import UploadResult, check_source, put

__all__ = [
    "Catalogue",
    "Copies",
    "Copy",
    "DamageSearch",
    "DamagedFile",
    "DownloadResult",
    "FileLoss",
    "FileRecord",
    "FileRepair",
    "Holding",
    "HoldingLostError",
    "HoldingRecord",
    "Home",
    "LocalCopy",
    "OnProgress",
    "OnUnreachable",
    "Original",
    "Removal",
    "RemovalPlan",
    "RepairProgress",
    "RepairedFile",
    "Replica",
    "ReplicaSources",
    "UploadResult",
    "add_holding",
    "catalogue_in",
    "check_home",
    "check_name",
    "check_new",
    "check_source",
    "check_sources",
    "delete_pending",
    "describe_removal",
    "discard_tags",
    "find_damage",
    "get",
    "list_files",
    "list_folder",
    "other_replicas",
    "own_name",
    "plan_removal",
    "put",
    "put_file",
    "remove",
    "repair_file",
    "repair_holding",
    "replicas",
    "select_for_put",
    "select_holdings",
]
