"""Qwen2.5: its shapes, weights, reference and generation."""
