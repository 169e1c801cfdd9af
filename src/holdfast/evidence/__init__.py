"""The record of every decision and audit: append-only, and verifiable offline by anyone."""
