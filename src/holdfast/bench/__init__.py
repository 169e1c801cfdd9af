"""What `holdfast bench` measures: ratios against named references, in one run."""
