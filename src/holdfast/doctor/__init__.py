"""What `holdfast doctor` looks at, one file for each part; nothing is changed by it."""
