"""What `holdfast bench` measures, always as ratios against a named reference in the same run."""
