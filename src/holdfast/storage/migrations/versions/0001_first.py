"""The first schema."""

import sqlalchemy as sa
from alembic import op

from holdfast.storage.migrations.columns import id_column, partial_index
from holdfast.storage.migrations.owner_tables import create_catalogue, create_transactions

revision = "0001"
down_revision = None


def upgrade() -> None:
    _control()
    create_catalogue()
    create_transactions()


def _control() -> None:
    op.create_table(
        "alerts",
        id_column(),
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
    partial_index(
        "alerts_open", "alerts", ["kind", "subject"], "ended = 4611686018427387904", unique=True
    )
    op.create_table(
        "audits",
        id_column(),
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
        sa.Column("checked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("read_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lasted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=True),
    )
    partial_index("audits_checked", "audits", ["ended"], "checked")
    partial_index("audits_unanswered", "audits", ["id"], "unanswered")
    op.create_index(
        "audits_by_end",
        "audits",
        ["ended", "id", "outcome", "overrides", "gas", "samples"],
    )
    op.create_index("audits_by_outcome", "audits", ["outcome", "ended", "id"])
    partial_index("audits_overridden", "audits", ["ended", "id"], "overrides != 0")
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
        "check_groups",
        sa.Column("holding", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        sa.Column("units", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("added", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cycle", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("damaged", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("holding", "name"),
    )
    op.create_index(
        "check_groups_by_holding_cycle_rank", "check_groups", ["holding", "cycle", "rank"]
    )
    op.create_index("check_groups_by_holding_verified", "check_groups", ["holding", "verified"])
    op.create_table(
        "checkpoints",
        id_column(),
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
        id_column(),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blocks", sa.BigInteger(), nullable=False),
        sa.Column("checked", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("verify_within", sa.BigInteger(), server_default="0", nullable=False),
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
        sqlite_autoincrement=True,
    )
    op.create_index("holdings_by_due", "holdings", ["due"])
    op.create_table(
        "former_names",
        id_column(),
        sa.Column("holding", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), server_default="0", nullable=False),
    )
    op.create_index("former_names_by_holding", "former_names", ["holding"])
    op.create_index("former_names_by_name", "former_names", ["name"])
    op.create_table(
        "leaves",
        id_column(),
        sa.Column("place", sa.BigInteger(), nullable=True),
        sa.Column("holding", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("proof", sa.LargeBinary(), nullable=True),
        sa.UniqueConstraint("place"),
    )
    op.create_index("leaves_by_holding_id", "leaves", ["holding", "id"])
    partial_index("leaves_waiting", "leaves", ["id"], "place IS NULL")
    op.create_table(
        "nodes",
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("probe_due", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reached", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("present", sa.Boolean(), nullable=True),
        sa.Column("challenges", sa.Text(), server_default="", nullable=False),
        sa.Column("probes", sa.Text(), server_default="", nullable=False),
        sa.Column("observed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reachable", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("address"),
    )
    op.create_table(
        "node_days",
        sa.Column("address", sa.LargeBinary(), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("observed", sa.BigInteger(), nullable=False),
        sa.Column("reachable", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("address", "start"),
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
        id_column(),
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
        sa.Column("done", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("total", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("progressed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("losses", sa.LargeBinary(), nullable=True),
    )
    op.create_index("responses_by_holding", "responses", ["holding"])
    op.create_index("responses_by_state_due", "responses", ["state", "due"])
    op.create_table(
        "trees",
        id_column(),
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
        id_column(),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
    )
    op.create_table(
        "canaries",
        id_column(),
        sa.Column("holding", sa.BigInteger(), nullable=False),
        sa.Column("damaged", sa.Text(), nullable=False),
        sa.Column("planted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("found", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
        sa.Column("lifted", sa.BigInteger(), server_default="4611686018427387904", nullable=False),
    )
    partial_index(
        "canaries_planted", "canaries", ["holding"], "lifted = 4611686018427387904", unique=True
    )
    op.create_table(
        "subtrees",
        id_column(autoincrement=False),
        sa.Column("root", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "tokens",
        id_column(),
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
        id_column(),
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
    op.create_table(
        "confidence_parts",
        sa.Column("holding", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at_most", sa.Float(), nullable=False),
        sa.Column("damaged", sa.Float(), nullable=False),
        sa.Column("detections", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("holding"),
    )
    op.create_table(
        "fleet_confidence",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), server_default="0", nullable=False),
        *(
            sa.Column(name, sa.Float(), nullable=False)
            for name in ("miss_rate", "miss_rate_low", "miss_rate_high")
        ),
        sa.Column("detections", sa.BigInteger(), nullable=False),
        sa.Column("at_most", sa.Float(), nullable=False),
        sa.Column("fit", sa.Text(), nullable=False),
        sa.Column("fitted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("lease", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
