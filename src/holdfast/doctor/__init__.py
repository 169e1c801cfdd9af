"""What `holdfast doctor` checks, one file per part. It changes nothing."""
