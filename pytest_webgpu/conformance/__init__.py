"""Op x kernel x device -> verdict."""
