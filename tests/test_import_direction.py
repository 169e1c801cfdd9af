"""Imports point one way through the house, as docs/architecture.md draws it."""

import ast
import re
from pathlib import Path

import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent

FOUNDATION = {
    *("errors", "atomic", "jsontext", "progress"),
    *("durations", "http_errors", "secret_variables", "settings_file", "words"),
    *("processes", "executor", "folder_jobs", "cluster", "slots"),
    *("known_hosts", "remote_systems"),
}
ALLOWED = {
    "model": set(),
    "storage": set(),
    "checkers": {"model", "pdp"},
    "testing": {"checkers"},
    "pdp": {"model"},
    "policy": {"model"},
    "sim": {"model", "policy"},
    "inference": {"model", "policy"},
    "learn": {"model", "sim", "policy", "inference"},
    "paper": {"model", "sim", "policy", "inference", "learn"},
    "ledger": {"model", "pdp", "storage"},
    "evidence": {"model", "pdp", "ledger"},
    "node": {"model", "pdp", "ledger"},
    "owner": {"model", "pdp", "storage", "ledger", "node", "checkers"},
    "control": {
        *("model", "pdp", "sim", "policy", "inference", "storage"),
        *("ledger", "evidence", "node", "owner", "checkers"),
    },
    "web": {
        *("model", "pdp", "sim", "policy", "inference", "storage"),
        *("ledger", "evidence", "node", "owner", "control", "checkers"),
    },
    "demo": {
        *("model", "pdp", "policy", "storage"),
        *("ledger", "evidence", "node", "owner", "control", "web"),
    },
    "doctor": {"pdp", "storage", "ledger", "evidence", "node", "owner", "control"},
    "api": {
        *("model", "pdp", "sim", "policy", "learn"),
        *("storage", "evidence", "owner", "control"),
    },
    "cli": {
        *("model", "pdp", "sim", "policy", "inference", "learn", "paper", "storage"),
        *("ledger", "evidence", "node", "owner", "control", "web", "doctor", "bench", "demo"),
        "checkers",
    },
    "bench": {
        *("model", "pdp", "policy", "storage"),
        *("ledger", "evidence", "node", "owner", "control", "web", "checkers"),
    },
}


# The modules of control beside queries/ that may hold SQL: those that own the writes of a table,
# and two that read for the service itself.
OWN_WRITES = {
    *("audits/contacts", "audits/reachability", "holding_commands"),
    *("operator_commands", "scheduling/schedule", "scheduling/coverage", "settings/configuration"),
    *("evidence/sequencer", "evidence/signer", "incidents/alerts", "incidents/store"),
    *("incidents/repeated_repairs", "incidents/answered_cases"),
    *("inference/canaries", "inference/confidence", "inference/fits"),
    "inference/refresh_lease",
    *("policies/aliases", "policies/versions", "policies/shadow_states", "backup/snapshot"),
    *("evidence/leaves", "incidents/holding_alerts"),
}
OWN_READS = {"evidence/reader", "inference/audit_log", "scheduling/lag"}
HOLD_SQL = {
    "web/tokens",
    *(f"control/{module}" for module in OWN_WRITES | OWN_READS),
}
# What is no SQL: a database, a way to it, and its errors.
NO_SQL = {"sqlalchemy.Engine", "sqlalchemy.Connection"}


def names_imported(path: Path) -> set[str]:
    names = set()
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{path} imports relatively"
            module = statement.module or ""
            names |= {module} | {f"{module}.{alias.name}" for alias in statement.names}
    return names


def rooms_imported(path: Path) -> set[str]:
    parts = {tuple(name.split(".")) for name in names_imported(path)}
    known = {entry.stem for entry in SOURCE.iterdir()}
    return {part[1] for part in parts if part[0] == "holdfast" and part[1:] and part[1] in known}


@pytest.mark.slow
def test_imports_point_one_way() -> None:
    offences = []
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        allowed = {room} | FOUNDATION | ALLOWED.get(room, set())
        offences += [f"{path}: {other}" for other in rooms_imported(path) - allowed]
    assert not offences


def test_every_room_has_its_place_in_the_order() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set(ALLOWED)


def test_the_foundation_imports_nothing_of_ours_but_itself() -> None:
    for name in FOUNDATION:
        assert rooms_imported(SOURCE / f"{name}.py") <= FOUNDATION


def test_pages_never_call_routers() -> None:
    for path in (SOURCE / "web" / "pages").glob("*.py"):
        assert not {name for name in names_imported(path) if name.startswith("holdfast.web.api")}


def test_no_sql_stands_outside_queries_commands_and_storage() -> None:
    holders = set()
    for room in ("web", "cli", "doctor", "demo", "control"):
        for path in (SOURCE / room).rglob("*.py"):
            names = {name for name in names_imported(path) if name.startswith("sqlalchemy.")}
            names = {name for name in names if not name.startswith("sqlalchemy.exc")}
            if names - NO_SQL or "exec_driver_sql" in path.read_text():
                holders.add(str(path.relative_to(SOURCE).with_suffix("")))
    queries = {name for name in holders if name.startswith("control/queries/")}
    assert holders - queries == HOLD_SQL


WRITERS = {"leaves": "control/evidence/leaves.py", "holdings": "control/scheduling/schedule.py"}


@pytest.mark.parametrize("table", WRITERS)
def test_the_control_plane_writes_a_table_in_one_module(table: str) -> None:
    statement = re.compile(rf"\b(insert|update|delete)\((schema\.)?{table}\b")
    writers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "bench" not in path.parts and statement.search(path.read_text())
    }
    assert writers == {WRITERS[table]}
