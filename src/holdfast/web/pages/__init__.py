"""The dashboard: pages that the server writes whole, from what the API tells."""
