"""The virtual drive as a target."""
