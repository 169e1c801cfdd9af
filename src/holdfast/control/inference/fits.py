"""Fits: what was learnt of the fleet from its log, each kept for good."""

import json

from sqlalchemy import Engine, insert, select

from holdfast.inference.fit import Fitted
from holdfast.model.scenario import Scenario
from holdfast.storage.database import transaction
from holdfast.storage.schema import fits


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


def world_of_fleet(engine: Engine, scenario: Scenario) -> Scenario:
    """Return the world that is most like this fleet: the latest fit's, or else the scenario."""
    fitted = latest_fit(engine)
    return scenario if fitted is None else fitted.scenario
