"""What each op computes."""
