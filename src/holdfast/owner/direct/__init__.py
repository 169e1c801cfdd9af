"""Direct holdings: data in a bucket or folder, audited by a node inside the owner's process."""
