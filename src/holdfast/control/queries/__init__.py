"""The read model: every figure that the system shows is read by a function of this package.

Each takes an open connection, so a caller reads all that it shows in one transaction.
"""
