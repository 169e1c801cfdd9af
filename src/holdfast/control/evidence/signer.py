"""The name and key that the evidence is signed with.

A restored log continues under a new name: what was signed after the backup is lost, and a second
head of the same size under the same key would be a fork.
"""

import secrets
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, select, update

from holdfast.control.evidence.leaves import record_leaf
from holdfast.control.evidence.reader import DatabaseLog
from holdfast.control.evidence.sequencer import Sequencer
from holdfast.control.settings.configuration import operator
from holdfast.evidence import leaf
from holdfast.evidence.bundle import write_bundle
from holdfast.evidence.codecs import plain
from holdfast.evidence.note import Signer
from holdfast.owner.keyring import Keyring
from holdfast.storage.database import transaction
from holdfast.storage.schema import checkpoints, origins, trees


def evidence_signer(keyring: Keyring, origin: str = "") -> Signer:
    name = f"holdfast/{keyring.owner.hex()[:16]}"
    seed = keyring.evidence_seed(origin.encode())
    return Signer(f"{name}/{origin}" if origin else name, seed)


def read_origin(connection: Connection) -> str:
    """Return the name of the current log; the first has none."""
    newest = select(origins.c.name).order_by(origins.c.id.desc()).limit(1)
    return connection.execute(newest).scalar() or ""


def current_signer(keyring: Keyring, engine: Engine) -> Signer:
    with transaction(engine) as connection:
        return evidence_signer(keyring, read_origin(connection))


def begin_anew(
    engine: Engine, keyring: Keyring, configuration: bytes, folder: Path, now: int
) -> Signer:
    """Continue the log under a new name, and record that in it; save what was signed so far.

    The tree stays as it is. `configuration` is the hash of the settings, which the leaf binds.
    """
    before = current_signer(keyring, engine)
    log = DatabaseLog(engine, before.verifier)
    if log.size:
        write_bundle(log, folder / f"evidence-{before.verifier.hash.hex()}.bundle")
    name = secrets.token_hex(4)
    after = evidence_signer(keyring, name)
    change = leaf.ConfigurationChange(
        at=now,
        hash=configuration,
        settings=(
            leaf.Setting(
                leaf.LOG_SETTING, f"{before.verifier}, {log.size} leaves", f"{after.verifier}"
            ),
        ),
        by=plain(f"{operator()}, holdfast restore"),
    )
    with transaction(engine) as connection:
        connection.execute(delete(checkpoints))
        connection.execute(update(trees).values(anchoring=0))
        connection.execute(insert(origins), [{"name": name, "since": now}])
        record_leaf(connection, change)
    sequencer = Sequencer(engine, after, lambda: now)
    while sequencer.sequence():
        pass
    return after
