"""The control plane: one file for each station on the way of an audit."""
