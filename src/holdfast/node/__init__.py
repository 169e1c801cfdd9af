"""The storage node: what it stores, how it proves, and both ends of its wire."""
