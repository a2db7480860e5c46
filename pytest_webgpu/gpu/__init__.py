"""Runs WGSL somewhere. Knows nothing of ops, models or pytest."""
