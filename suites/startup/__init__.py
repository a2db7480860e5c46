"""What the plugin costs a project that does not use it."""
