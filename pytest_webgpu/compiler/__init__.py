"""Torch graph -> list of dispatches."""
