"""The audit primitive: a pairing-free homomorphic MAC. No network, no database."""
