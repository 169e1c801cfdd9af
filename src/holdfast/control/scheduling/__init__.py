"""Decides which holding is audited when and how hard, within the guardrails."""
