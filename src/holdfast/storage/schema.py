"""The tables of the control plane. Times are whole milliseconds since 1970.

A row of `holdings` has the schedule of one holding, its lease, what audits showed, the policy's
state and the pending audit; the other tables have the results. `holdfast.storage.home_schema` has
the owner's tables of the same database.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    false,
)

from holdfast.storage.home_schema import RowId, metadata

NEVER = 2**62


def moment(name: str, default: int = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=str(default))


holdings = Table(
    "holdings",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("blocks", BigInteger, nullable=False),  # or other units
    Column("checked", Boolean, nullable=False, server_default=false()),  # by a tool, not by proofs
    moment("verify_within"),  # milliseconds in which every unit is checked; 0 if nobody asks for it
    # The schedule, and the worker's lease.
    moment("due"),
    moment("lease"),  # until then
    Column("token", BigInteger, nullable=False, server_default="0"),
    Column("quarantined", Boolean, nullable=False, server_default=false()),
    # What audits showed.
    Column("number", BigInteger, nullable=False, server_default="0"),  # of audits concluded
    moment("added"),  # to the schedule
    moment("audited"),  # when the last one ended, or the holding was added
    Column("outcome", Text),  # of the last one, so that no list looks for it among all audits
    Column("history", LargeBinary, nullable=False),
    moment("observed"),
    Column("news", Boolean, nullable=False),
    # The decision about the next audit, and the state of the policy that took it.
    Column("version", Text, nullable=False, server_default=""),
    Column("memory", LargeBinary, nullable=False),
    moment("decided"),
    Column("observation", LargeBinary, nullable=False),
    Column("chosen", SmallInteger, nullable=False, server_default="-1"),
    Column("interval", Integer, nullable=False, server_default="0"),
    Column("ratio", Float, nullable=False, server_default="0"),
    Column("overrides", Integer, nullable=False, server_default="0"),
    Column("flight", LargeBinary),  # the pending audit, saved before it takes effect
    Index(None, "due"),
    sqlite_autoincrement=True,  # audits and leaves have the ids of removed holdings
)

# Holdings on nodes, whose audits are proofs about blocks. What is inferred, fitted or compared in
# blocks or gas is about these alone.
has_proofs = ~holdings.c.checked

# Names that holdings had before they were renamed or removed.
former_names = Table(
    "former_names",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("holding", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    moment("until"),
    Index(None, "holding"),
    Index(None, "name"),
)

audits = Table(
    "audits",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("holding", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    moment("due"),
    moment("ended"),
    Column("outcome", Text, nullable=False),
    Column("interval", Integer, nullable=False),
    Column("ratio", Float, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("overrides", Integer, nullable=False),
    Column("latency", Float, nullable=False),  # seconds until the node's answer
    Column("gas", Float, nullable=False),
    Column("unanswered", Boolean, nullable=False, server_default=false()),  # a failure is, at first
    Column("observation", LargeBinary, nullable=False),  # what it was decided on
    Column("found", BigInteger),  # damaged blocks, counted after it failed
    # Of a check by a tool: its samples are units of another kind, and cost these instead of gas.
    Column("checked", Boolean, nullable=False, server_default=false()),
    Column("read_bytes", BigInteger, nullable=False, server_default="0"),
    Column("requests", BigInteger, nullable=False, server_default="0"),
    Column("lasted", BigInteger, nullable=False, server_default="0"),  # milliseconds
    Column("report", LargeBinary),  # of a check that found damage: all that it said
    Index(None, "holding", "number", unique=True),
    # The newest of all, of an outcome, or of those that a rail changed; and sums over days, which
    # read the first of these indices alone.
    Index("audits_by_end", "ended", "id", "outcome", "overrides", "gas", "samples"),
    Index("audits_by_outcome", "outcome", "ended", "id"),
    Index(
        "audits_overridden",
        "ended",
        "id",
        sqlite_where=Column("overrides", Integer) != 0,
        postgresql_where=Column("overrides", Integer) != 0,
    ),
    Index(
        "audits_checked",
        "ended",
        sqlite_where=Column("checked", Boolean),
        postgresql_where=Column("checked", Boolean),
    ),
    Index(
        "audits_unanswered",
        "id",
        sqlite_where=Column("unanswered", Boolean),
        postgresql_where=Column("unanswered", Boolean),
    ),
)

# What checks of a holding can draw, and when each was read last. Draws go by cycle and rank: every
# cycle is a random order of its own.
check_groups = Table(
    "check_groups",
    metadata,
    Column("holding", BigInteger, primary_key=True, autoincrement=False),
    Column("name", LargeBinary, primary_key=True),
    Column("units", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    moment("verified"),  # 0 if it never was
    moment("added"),
    Column("cycle", BigInteger, nullable=False),
    Column("rank", BigInteger, nullable=False),
    Column("damaged", Boolean, nullable=False, server_default=false()),  # at the last look
    Index(None, "holding", "cycle", "rank"),
    Index(None, "holding", "verified"),
)

# Nodes by their address: when they are probed, and whether they were present at each contact.
nodes = Table(
    "nodes",
    metadata,
    Column("address", LargeBinary, primary_key=True),
    moment("probe_due"),  # 0 until one is planned
    moment("reached"),  # when it last took a request
    Column("present", Boolean),  # at the last contact of any kind, if there was one
    # The last contacts, the newest last: a letter each, "." for there and "x" for away.
    Column("challenges", Text, nullable=False, server_default=""),
    Column("probes", Text, nullable=False, server_default=""),
    # The last contact up to which its days below are summed, and whether it was reachable then.
    moment("observed"),
    Column("reachable", Boolean),
    Index(None, "probe_due"),
    Index(None, "reached"),
)

# The days of a node, by the moment at which they start: milliseconds for which we know whether it
# was reachable, and for which it was.
node_days = Table(
    "node_days",
    metadata,
    Column("address", LargeBinary, primary_key=True),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("observed", BigInteger, nullable=False),
    Column("reachable", BigInteger, nullable=False),
)

# Challenges that are opened together: settling one of them needs the words of all.
batches = Table(
    "batches",
    metadata,
    Column("seed", LargeBinary, primary_key=True),
    Column("owner", LargeBinary, nullable=False),
    Column("deadline", BigInteger, nullable=False),  # seconds since 1970, as ledgers count
    Column("words", LargeBinary, nullable=False),
)

# The steps of the response to a failed audit, in their order; one of them is ready at a time.
responses = Table(
    "responses",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("holding", BigInteger, nullable=False),
    Column("audit", BigInteger, nullable=False),  # the number of the one that failed
    Column("step", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False),  # the reason; at its end, the result
    moment("due"),
    moment("lease"),
    Column("token", BigInteger, nullable=False, server_default="0"),
    moment("began"),
    moment("ended", NEVER),
    Column("awaits", BigInteger),  # the number of the audit that follows up
    Column("progress", LargeBinary),  # of a step that takes several attempts
    Column("done", BigInteger, nullable=False, server_default="0"),  # blocks, of how many
    Column("total", BigInteger, nullable=False, server_default="0"),
    moment("progressed"),  # when `done` was counted
    Column("losses", LargeBinary),  # of a repair: the files and bytes that no replica has
    Index(None, "holding"),
    Index(None, "state", "due"),
)

# A leaf is inserted with the change that it records; the sequencer gives it its place in the tree.
leaves = Table(
    "leaves",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("place", BigInteger, unique=True),
    Column("holding", BigInteger),
    Column("body", LargeBinary, nullable=False),
    Column("proof", LargeBinary),
    Index(None, "holding", "id"),
    Index(
        "leaves_waiting",
        "id",
        sqlite_where=Column("place").is_(None),
        postgresql_where=Column("place").is_(None),
    ),
)

# One row for the sequencer: the tree's size and the roots of its full subtrees.
trees = Table(
    "trees",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    moment("anchoring"),  # until then a worker may be anchoring; 0 if none is
)

# Signed heads of the tree; one whose root was anchored on the ledger is signed again to say so.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("anchored", Boolean, nullable=False),
    Column("note", LargeBinary, nullable=False),
    moment("signed"),
    Index(None, "size", "anchored", unique=True),
)

# Public keys of holdings, by their id: anyone needs them to check proofs again.
public_keys = Table(
    "public_keys",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("points", LargeBinary, nullable=False),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    moment("raised"),
    moment("seen"),
    moment("ended", NEVER),
    # How many of its two messages were delivered, whether the detail is newer than the first, and
    # until when a worker is sending one.
    Column("told", SmallInteger, nullable=False, server_default="0"),
    Column("changed", Boolean, nullable=False, server_default=false()),
    moment("telling"),
    Column("acknowledged", BigInteger),
    Column("acknowledged_by", Text),
    Index(
        "alerts_open",
        "kind",
        "subject",
        unique=True,
        sqlite_where=Column("ended") == NEVER,
        postgresql_where=Column("ended") == NEVER,
    ),
)

# Registered policies. None is ever changed or removed.
versions = Table(
    "versions",
    metadata,
    Column("id", Text, primary_key=True),  # SHA-256 of all that its decisions depend on
    Column("name", Text, nullable=False),
    Column("options", Text, nullable=False),  # of a learned one's dial
    Column("scenario", LargeBinary, nullable=False),
    Column("manifest", LargeBinary),  # of a learned one, as its weights
    Column("weights", LargeBinary),
    moment("registered"),
)

# Which version decides and which runs in shadow: the last rows say it. None is changed or removed.
promotions = Table(
    "promotions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # without gaps
    moment("at"),
    Column("change", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("forced", Boolean, nullable=False, server_default=false()),
    Column("report", LargeBinary),  # what a promotion was judged by, as JSON
)

# The states of versions that decide in shadow, or did so before they were promoted.
shadows = Table(
    "shadows",
    metadata,
    Column("holding", BigInteger, primary_key=True, autoincrement=False),
    Column("version", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),  # of audits that it has seen
    Column("memory", LargeBinary, nullable=False),
    Column("chosen", SmallInteger, nullable=False),
)

# Roots of the tree's subtrees of 256 leaves, by their place, so that a proof reads few leaves.
subtrees = Table(
    "subtrees",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
)

# Tokens for the API. Only a digest of the token is stored.
tokens = Table(
    "tokens",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    moment("created"),
    moment("revoked", NEVER),
)

# The settings that the control plane started with, as JSON without secrets, the newest last.
configurations = Table(
    "configurations",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # without gaps
    moment("at"),
    Column("by", Text, nullable=False),
    Column("document", Text, nullable=False),
)

# The names that the evidence was signed under, the newest last: a restored log has its own.
origins = Table(
    "origins",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("name", Text, nullable=False),
    moment("since"),
)

# A version in shadow beside a champion: sums over its decisions about a holding. Each decision is
# in the evidence.
shadow_sums = Table(
    "shadow_sums",
    metadata,
    Column("version", Text, primary_key=True),
    Column("champion", Text, primary_key=True),
    Column("holding", BigInteger, primary_key=True, autoincrement=False),
    moment("first"),
    moment("last"),
    Column("decisions", BigInteger, nullable=False),
    Column("agreed", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),  # units for which the champion's were in force
    *(
        Column(f"{side}{name}", Float, nullable=False)
        for side in ("", "champion_")
        for name in ("interval", "ratio", "gas", "rails", "outside", "spent")
    ),
)

TABLES = metadata.sorted_tables  # all of the database, those that others refer to first
