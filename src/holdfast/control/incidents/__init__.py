"""What happens after a failed audit: incidents, repair, alerts."""
