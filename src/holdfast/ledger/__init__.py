"""The audit contract and its ledgers behind one protocol: a durable local one, and any EVM."""
