"""Hostile programs, one per file, and what has to become of each."""
