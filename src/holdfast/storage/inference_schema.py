"""The tables of inference: fits of the model, planted damage and confidence."""

from sqlalchemy import BigInteger, Column, Float, Index, LargeBinary, Table, Text

from holdfast.storage.home_schema import RowId, metadata
from holdfast.storage.schema import NEVER, moment

# Fits of the model to the fleet's log, as JSON.
fits = Table(
    "fits",
    metadata,
    Column("id", RowId, primary_key=True),
    moment("at"),
    Column("document", Text, nullable=False),
)

# Damage that the owner planted in a holding, to see whether audits find it.
canaries = Table(
    "canaries",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("holding", BigInteger, nullable=False),
    Column("damaged", Text, nullable=False),  # the blocks, as a list in JSON
    moment("planted"),
    moment("found", NEVER),  # when an audit first failed
    moment("lifted", NEVER),
    Index(
        "canaries_planted",
        "holding",
        unique=True,
        sqlite_where=Column("lifted") == NEVER,
        postgresql_where=Column("lifted") == NEVER,
    ),
)

# What inference says of a holding's damage, at that time and after that many audits.
confidences = Table(
    "confidences",
    metadata,
    Column("holding", BigInteger, primary_key=True, autoincrement=False),
    moment("at"),
    Column("number", BigInteger, nullable=False),
    Column("at_most", Float, nullable=False),  # share of its blocks, at 95 %
    Column("damaged", Float, nullable=False),  # probability that any block is
)

# The parts from which the fleet's figures are summed. Those of a new basis replace the
# confidences above when every holding has one.
confidence_parts = Table(
    "confidence_parts",
    metadata,
    Column("holding", BigInteger, primary_key=True, autoincrement=False),
    Column("basis", Text, nullable=False),
    moment("at"),
    Column("number", BigInteger, nullable=False),
    Column("at_most", Float, nullable=False),
    Column("damaged", Float, nullable=False),
    Column("detections", BigInteger, nullable=False),
    Column("samples", LargeBinary, nullable=False),  # its misses and lost blocks in every history
)

# One row: what the fleet's figures are, what they are inferred from, and who refreshes them.
fleet_confidence = Table(
    "fleet_confidence",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("basis", Text, nullable=False),  # a hash of fit and canaries; empty before the first
    moment("at"),
    Column("miss_rate", Float, nullable=False),
    Column("miss_rate_low", Float, nullable=False),
    Column("miss_rate_high", Float, nullable=False),
    Column("detections", BigInteger, nullable=False),
    Column("at_most", Float, nullable=False),
    Column("fit", Text, nullable=False),  # made where no fit is stored; else empty
    moment("fitted"),
    Column("holder", Text, nullable=False),
    moment("lease"),
)
