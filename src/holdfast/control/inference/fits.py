"""Fits of the fleet's world to its log of audits; each is kept for good."""

import json

from sqlalchemy import Engine, func, insert, select

from holdfast.inference.fit import Fitted
from holdfast.model.scenario import Scenario
from holdfast.storage.database import transaction
from holdfast.storage.inference_schema import fits
from holdfast.storage.schema import audits


def save_fit(engine: Engine, fitted: Fitted, now: int) -> int:
    """Keep a fit; return its number."""
    row = {"at": now, "document": json.dumps(fitted.document())}
    with transaction(engine) as connection:
        return int(connection.execute(insert(fits).values(row).returning(fits.c.id)).scalar_one())


def latest_fit(engine: Engine) -> Fitted | None:
    query = select(fits.c.document).order_by(fits.c.id.desc()).limit(1)
    with transaction(engine) as connection:
        document = connection.execute(query).scalar()
    return None if document is None else Fitted.of_document(json.loads(document))


def last_taught(engine: Engine) -> int | None:
    """Return when the fleet was last fitted, or else audited for the first time."""
    with transaction(engine) as connection:
        fitted: int | None = connection.execute(select(func.max(fits.c.at))).scalar()
        if fitted:
            return fitted
        first = select(audits.c.ended).where(~audits.c.checked).order_by(audits.c.ended).limit(1)
        return connection.execute(first).scalar()


def world_of_fleet(engine: Engine, scenario: Scenario) -> Scenario:
    """Return the world that is most like this fleet: the latest fit's, or else the scenario."""
    fitted = latest_fit(engine)
    return scenario if fitted is None else fitted.scenario
