"""Policy versions, aliases, shadow mode, comparison and promotion."""
