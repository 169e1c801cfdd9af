"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


# The schema of PostgreSQL that all owners of a database share.
SHARED = "holdfast_transactions"


def upgrade() -> None:
    _control()
    _catalogue()
    _transactions()


def _control() -> None:
    op.create_table(
        "alerts",
        _id(),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("raised", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("seen", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ended", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
        sa.Column("told", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("changed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("telling", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("acknowledged", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
    )
    _partial_index(
        "alerts_open", "alerts", ["kind", "subject"], "ended = 4611686018427387904", unique=True
    )
    op.create_table(
        "audits",
        _id(),
        sa.Column("holding", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ended", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("interval", sa.Integer(), nullable=False),
        sa.Column("ratio", sa.Float(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("overrides", sa.Integer(), nullable=False),
        sa.Column("latency", sa.Float(), nullable=False),
        sa.Column("gas", sa.Float(), nullable=False),
        sa.Column("unanswered", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("observation", sa.LargeBinary(), nullable=False),
        sa.Column("found", sa.BigInteger(), nullable=True),
    )
    _partial_index("audits_unanswered", "audits", ["id"], "unanswered")
    op.create_index(
        "audits_by_end",
        "audits",
        ["ended", "id", "outcome", "overrides", "gas", "samples"],
    )
    op.create_index("audits_by_outcome", "audits", ["outcome", "ended", "id"])
    _partial_index("audits_overridden", "audits", ["ended", "id"], "overrides != 0")
    op.create_index("audits_by_holding_number", "audits", ["holding", "number"], unique=True)
    op.create_table(
        "batches",
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("owner", sa.LargeBinary(), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("words", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("seed"),
    )
    op.create_table(
        "checkpoints",
        _id(),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("anchored", sa.Boolean(), nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),
        sa.Column("signed", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.create_index(
        ("checkpoints_by_size_anchored"), "checkpoints", ["size", "anchored"], unique=True
    )
    op.create_table(
        "holdings",
        _id(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blocks", sa.BigInteger(), nullable=False),
        sa.Column("due", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("number", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("added", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("audited", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("history", sa.LargeBinary(), nullable=False),
        sa.Column("observed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("news", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Text(), server_default="", nullable=False),
        sa.Column("memory", sa.LargeBinary(), nullable=False),
        sa.Column("decided", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("observation", sa.LargeBinary(), nullable=False),
        sa.Column("chosen", sa.SmallInteger(), server_default="-1", nullable=False),
        sa.Column("interval", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ratio", sa.Float(), server_default="0", nullable=False),
        sa.Column("overrides", sa.Integer(), server_default="0", nullable=False),
        sa.Column("flight", sa.LargeBinary(), nullable=True),
        sa.UniqueConstraint("name"),
    )
    op.create_index("holdings_by_due", "holdings", ["due"])
    op.create_table(
        "leaves",
        _id(),
        sa.Column("place", sa.BigInteger(), nullable=True),
        sa.Column("holding", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("proof", sa.LargeBinary(), nullable=True),
        sa.UniqueConstraint("place"),
    )
    op.create_index("leaves_by_holding_id", "leaves", ["holding", "id"])
    _partial_index("leaves_waiting", "leaves", ["id"], "place IS NULL")
    op.create_table(
        "nodes",
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("probe_due", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reached", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("present", sa.Boolean(), nullable=True),
        sa.Column("challenges", sa.Text(), server_default="", nullable=False),
        sa.Column("probes", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("address"),
    )
    op.create_index("nodes_by_probe_due", "nodes", ["probe_due"])
    op.create_index("nodes_by_reached", "nodes", ["reached"])
    op.create_table(
        "public_keys",
        sa.Column("id", sa.LargeBinary(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "responses",
        _id(),
        sa.Column("holding", sa.BigInteger(), nullable=False),
        sa.Column("audit", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("due", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("token", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("began", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ended", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
        sa.Column("awaits", sa.BigInteger(), nullable=True),
        sa.Column("progress", sa.LargeBinary(), nullable=True),
    )
    op.create_index("responses_by_holding", "responses", ["holding"])
    op.create_index("responses_by_state_due", "responses", ["state", "due"])
    op.create_table(
        "trees",
        _id(),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("frontier", sa.LargeBinary(), nullable=False),
        sa.Column("anchoring", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("scenario", sa.LargeBinary(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=True),
        sa.Column("weights", sa.LargeBinary(), nullable=True),
        sa.Column("registered", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "promotions",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("forced", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "shadows",
        sa.Column("holding", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("memory", sa.LargeBinary(), nullable=False),
        sa.Column("chosen", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("holding", "version"),
    )
    op.create_table(
        "fits",
        _id(),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
    )
    op.create_table(
        "canaries",
        _id(),
        sa.Column("holding", sa.BigInteger(), nullable=False),
        sa.Column("damaged", sa.Text(), nullable=False),
        sa.Column("planted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("found", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
        sa.Column("lifted", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
    )
    _partial_index(
        "canaries_planted", "canaries", ["holding"], "lifted = 4611686018427387904", unique=True
    )
    op.create_table(
        "subtrees",
        _id(autoincrement=False),
        sa.Column("root", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "tokens",
        _id(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("created", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("revoked", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
    )
    op.create_table(
        "configurations",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "origins",
        _id(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.create_table(
        "shadow_sums",
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("champion", sa.Text(), nullable=False),
        sa.Column("holding", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("last", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("decisions", sa.BigInteger(), nullable=False),
        sa.Column("agreed", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        *(
            sa.Column(f"{side}{name}", sa.Float(), nullable=False)
            for side in ("", "champion_")
            for name in ("interval", "ratio", "gas", "rails", "outside", "spent")
        ),
        sa.PrimaryKeyConstraint("version", "champion", "holding"),
    )
    op.create_table(
        "confidences",
        sa.Column("holding", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at_most", sa.Float(), nullable=False),
        sa.Column("damaged", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("holding"),
    )


def _catalogue() -> None:
    op.create_table(
        "catalogue",
        sa.Column("name", _name(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("node", sa.LargeBinary(), nullable=False),
        sa.Column("ca", sa.Text(), nullable=True),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("sectors", sa.Integer(), nullable=False),
        sa.Column("encrypted", sa.Boolean(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=True),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("scheduled", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["scheduled"], ["holdings.id"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index("catalogue_by_scheduled", "catalogue", ["scheduled"], unique=True)
    _partial_index("catalogue_unscheduled", "catalogue", ["name"], "scheduled IS NULL")
    op.create_table(
        "registrations",
        sa.Column("holding", _name(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("block", sa.BigInteger(), nullable=False),
        sa.Column("gas", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"]),
        sa.PrimaryKeyConstraint("holding"),
    )
    op.create_table(
        "files",
        _id(),
        sa.Column("holding", _name(), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        *_version(),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"]),
        sa.UniqueConstraint("holding", "name"),
    )
    op.create_table(
        "file_changes",
        sa.Column("holding", _name(), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        *_version(),
        sa.Column("removes", sa.Boolean(), nullable=False),
        sa.Column("upload", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"]),
        sa.PrimaryKeyConstraint("holding", "name"),
    )
    op.create_table(
        "open_challenges",
        sa.Column("holding", _name(), nullable=False),
        sa.Column("challenge", sa.LargeBinary(), nullable=False),
        sa.Column("target", sa.LargeBinary(), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["holding"], ["catalogue.name"]),
        sa.PrimaryKeyConstraint("holding", "challenge"),
    )


def _transactions() -> None:
    """Create what another owner may have created already."""
    shared = SHARED if op.get_bind().dialect.name == "postgresql" else None
    op.create_table(
        "transactions",
        sa.Column("chain", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sender", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("contract", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("gas", sa.BigInteger(), nullable=False),
        sa.Column("block", sa.LargeBinary(), nullable=True),
        sa.Column("done", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("reorganised", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("chain", "sender", "nonce"),
        schema=shared,
        if_not_exists=True,
    )
    op.create_table(
        "transaction_attempts",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("chain", sa.BigInteger(), nullable=False),
        sa.Column("sender", sa.LargeBinary(), nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=False),
        sa.Column("fee", sa.BigInteger(), nullable=False),
        sa.Column("tip", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
        schema=shared,
        if_not_exists=True,
    )
    op.create_index(
        "transaction_attempts_by_chain_sender_nonce",
        "transaction_attempts",
        ["chain", "sender", "nonce"],
        schema=shared,
        if_not_exists=True,
    )


def _partial_index(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    condition = sa.text(where)
    op.create_index(
        name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition
    )


def _id(*, autoincrement: bool = True) -> sa.Column[int]:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("id", number, autoincrement=autoincrement, primary_key=True)


def _name() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _version() -> list[sa.Column[bytes] | sa.Column[int]]:
    return [
        sa.Column("source", sa.LargeBinary(), nullable=False),
        sa.Column("file_id", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("tags_sha256", sa.LargeBinary(), nullable=False),
    ]
