"""Backs up a home and restores it."""
