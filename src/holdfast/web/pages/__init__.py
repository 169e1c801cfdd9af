"""The dashboard: pages that the server renders whole, from the read model."""
