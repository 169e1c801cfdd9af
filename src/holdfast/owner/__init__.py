"""The owner's side: a home, files put on nodes and had back, audits of one holding, repair."""
