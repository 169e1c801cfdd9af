"""The settings of the control plane."""
