"""Writes and reads the signed evidence log."""
