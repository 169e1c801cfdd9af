"""Checks storage that exists already: buckets, repositories of backup tools, files with hashes."""
