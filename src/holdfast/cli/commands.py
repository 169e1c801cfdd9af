"""Every command: where its function is, and its line in the help.

The help of a group is printed from here, so that no command is imported before it is typed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A command: `module:function` below `holdfast.cli`, and the first line of its help."""

    target: str
    help: str


@dataclass(frozen=True)
class Group:
    help: str
    commands: dict[str, Entry]


COMMANDS: dict[str, Entry | Group] = {
    "init": Entry("init:init", "Create the owner's home: one secret, sealed with a passphrase."),
    "passphrase": Entry("init:passphrase", "Change the passphrase of the owner's secret."),
    "holding": Group(
        "Holdings: all files on one node, or in one bucket or folder, under one key.",
        {
            "add": Entry(
                "holding:add", "Create a holding: on a node, or of data in a bucket or folder."
            ),
            "list": Entry(
                "holding:list_holdings", "List the holdings, their files and unfinished uploads."
            ),
            "refresh": Entry(
                "direct:refresh",
                "Enrol new objects of a direct holding, and list those that changed or vanished.",
            ),
            "accept": Entry(
                "direct:accept", "Take changed objects of a direct holding as they are now."
            ),
            "node-key": Entry(
                "direct:node_key",
                "Write the key of a direct holding's node, for a real one that takes over.",
            ),
            "set-url": Entry("holding:set_url", "Follow a node that has moved to another URL."),
            "rename": Entry("holding:rename", "Give a holding another name."),
            "rm": Entry(
                "holding:rm", "Remove a holding, and its files on the node unless you keep them."
            ),
        },
    ),
    "put": Entry("files:put", "Put files on nodes: tag them, encrypt them if asked, upload them."),
    "get": Entry("files:get", "Download a file and check every block: exit 1 if a part is lost."),
    "rm": Entry("files:rm", "Remove a file from its nodes and from the catalogue."),
    "audit": Group(
        "Audit holdings: check that nodes still have the data.",
        {
            "now": Entry(
                "audit:now", "Audit holdings now: exit 1 if one fails or its node doesn't answer."
            ),
            "release": Entry("audit:release", "Put a quarantined holding back on the schedule."),
            "ask": Entry(
                "audit:ask", "Tell the service to audit a holding as soon as a worker is free."
            ),
        },
    ),
    "repair": Entry("repair:repair", "Find damaged blocks, restore them and audit the holding."),
    "serve": Entry("serve:serve", "Run the service: it audits all holdings by itself."),
    "status": Entry(
        "status:status", "Show the state of all holdings: exit 1 if something's wrong."
    ),
    "doctor": Entry("doctor:doctor", "Find faults and name their cures: exit 1 if there is one."),
    "config": Group(
        "The settings in effect.",
        {"show": Entry("config:show", "Show every setting and where its value comes from.")},
    ),
    "backup": Entry("backup:backup", "Write a home into one file, while its service runs."),
    "restore": Entry("backup:restore", "Create a home from a backup."),
    "confidence": Entry(
        "confidence:confidence",
        "Estimate undetected damage: exit 1 if damage is known or the ceiling is broken.",
    ),
    "canary": Group(
        "Canaries: damage that you plant, to see whether audits find it.",
        {
            "plant": Entry("canary:plant", "Damage blocks of a holding on a node that you run."),
            "lift": Entry("canary:lift", "Restore the blocks that a canary damaged."),
            "list": Entry(
                "canary:list_canaries", "List all canaries and how much damage audits find."
            ),
        },
    ),
    "policy": Group(
        "Policies: try a new one, promote it, roll it back.",
        {
            "fit": Entry("fit:fit", "Fit the scenario to the audits in the log."),
            "retrain": Entry(
                "retrain:retrain", "Train a policy for this fleet and run it in shadow."
            ),
            "promote": Entry(
                "promote:promote", "Make a version the champion if it passes: else exit 1."
            ),
            "list": Entry("policy:list_versions", "List the registered versions, newest first."),
            "show": Entry("policy:show", "Show one version, after checking its hash."),
            "add": Entry("policy:add", "Register a policy. It decides once it is promoted."),
            "import-sb3": Entry(
                "sb3:import_sb3", "Make a checkpoint from a DQN of Stable-Baselines3."
            ),
            "challenge": Entry("policy:challenge", "Run a registered version in shadow."),
            "withdraw": Entry("policy:withdraw", "Stop running the challenger in shadow."),
            "shadow": Entry(
                "policy:shadow", "Compare a version in shadow with the champion, by decision."
            ),
            "rollback": Entry("policy:rollback", "Make the previous champion decide again."),
            "history": Entry("policy:history", "List all changes of champion and challenger."),
        },
    ),
    "token": Group(
        "Tokens for callers of the API on other machines.",
        {
            "create": Entry("token:create", "Create a token and print it."),
            "list": Entry("token:list_tokens", "List the tokens, without their secrets."),
            "revoke": Entry("token:revoke", "Revoke a token. It stops working at once."),
        },
    ),
    "pdp": Group(
        "The audit primitive: tag, challenge, prove, verify.",
        {
            "keygen": Entry(
                "pdp:keygen", "Make a key pair: an encrypted secret key, a public key."
            ),
            "tag": Entry("pdp:tag", "Tag files and enter them into the holding's inventory."),
            "challenge": Entry("pdp:challenge", "Draw a new challenge over the whole holding."),
            "prove": Entry(
                "pdp:prove", "Answer a challenge from the files and tags, without a key."
            ),
            "verify": Entry("pdp:verify", "Check a proof: exit 0 if it passes, 1 if it fails."),
            "locate": Entry(
                "pdp:locate_damage", "Find the damaged blocks: exit 1 if there are any."
            ),
            "forget": Entry("pdp:forget", "Remove files from the inventory: they aren't audited."),
        },
    ),
    "node": Group(
        "A storage node: it stores files and proves that it has them.",
        {
            "keygen": Entry("node:keygen", "Make a node's signing key and print its address."),
            "serve": Entry("node:serve", "Run a storage node until SIGTERM or Ctrl-C."),
        },
    ),
    "evidence": Group(
        "The record of all audits: check it, read it, export it.",
        {
            "verify": Entry("evidence:verify", "Check a whole log: exit 1 if something is wrong."),
            "show": Entry("evidence:show", "Explain the log: why each audit happened, its result."),
            "export": Entry("evidence:export", "Write a log into one file that anyone can check."),
            "key": Entry("evidence:show_key", "Print the key with which others verify your log."),
        },
    ),
    "bench": Group(
        "Benchmarks: ratios against references measured in the same run.",
        {
            "pdp": Entry("bench:pdp", "Compare tagging, proving and challenges with SHA-256."),
            "ledger": Entry("bench:ledger", "Measure the gas of the contract's calls."),
            "evidence": Entry(
                "bench:evidence", "Compare verifying a log with checking its proofs one by one."
            ),
            "node": Entry("bench:node", "Compare a storage node with its prover and a plain copy."),
            "audits": Entry("bench:audits", "Measure audits from end to end, on real nodes."),
            "files": Entry("bench:files", "Compare put and get of a large file with a plain copy."),
            "existing": Entry(
                "bench:existing", "Compare audits of existing storage with its own tools."
            ),
            "control": Entry("bench:control", "Compare the control plane with its bare database."),
            "web": Entry("bench:web", "Time the first load of each dashboard page."),
        },
    ),
    "ledger": Group(
        "The audit contract: its account, its deployment, its events.",
        {
            "keygen": Entry("ledger:keygen", "Make an account that pays for transactions."),
            "deploy": Entry("ledger:deploy", "Deploy the audit contract on a chain."),
            "show": Entry("ledger:show", "List the events of a ledger, without an account."),
        },
    ),
    "paper": Entry("paper:paper", "Show a table of the paper as it ships, or reproduce it."),
    "demo": Entry("demo:demo", "Watch nodes, a chain, a policy and real damage on this machine."),
    "evaluate": Entry("evaluate:evaluate", "Compare policies on the same simulated episodes."),
    "tune": Entry("tune:tune", "Find the cheapest policy of each kind that keeps an exposure."),
    "plan": Entry(
        "plan:plan", "Turn a budget into a ceiling, or a ceiling or deadline into a cost."
    ),
    "train": Entry("train:train", "Train a policy in simulation and save it as a checkpoint."),
    "aggregate": Entry(
        "aggregate:aggregate", "Summarise trainings over their seeds, from many folders."
    ),
}
