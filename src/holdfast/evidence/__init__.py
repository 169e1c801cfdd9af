"""The record of every decision and audit: append-only, and checkable by strangers, offline."""
