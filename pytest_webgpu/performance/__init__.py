"""What time things take, and how sure that is."""
