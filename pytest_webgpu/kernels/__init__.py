"""Reads .wgsl files. Knows nothing of devices."""
