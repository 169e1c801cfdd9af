"""Fits the model of the fleet to its audit log, and states confidence."""
