"""Under which name and key the evidence is signed.

A log that was restored goes on under a name of its own: what was signed after the backup is lost,
and a second head of the same size under the same key would be a fork.
"""

from sqlalchemy import Connection, Engine, select

from holdfast.control.database import transaction
from holdfast.control.schema import origins
from holdfast.evidence.note import Signer
from holdfast.owner.keyring import Keyring


def evidence_signer(keyring: Keyring, origin: str = "") -> Signer:
    name = f"holdfast/{keyring.owner.hex()[:16]}"
    seed = keyring.evidence_seed(origin.encode())
    return Signer(f"{name}/{origin}" if origin else name, seed)


def read_origin(connection: Connection) -> str:
    """Return the name of the log that grows now; the first has none."""
    newest = select(origins.c.name).order_by(origins.c.id.desc()).limit(1)
    return connection.execute(newest).scalar() or ""


def current_signer(keyring: Keyring, engine: Engine) -> Signer:
    with transaction(engine) as connection:
        return evidence_signer(keyring, read_origin(connection))
