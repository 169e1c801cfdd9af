"""The whole system on one machine, live, with damage that is real: what `holdfast demo` shows."""
