"""The functions and classes of the public API, which `holdfast` offers by name."""
