"""Whether anything got worse than it was."""
