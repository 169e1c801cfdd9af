"""The read model: every figure that is shown is read here."""
