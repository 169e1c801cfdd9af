"""Studies and comparisons with other frameworks, for those who develop Holdfast."""
