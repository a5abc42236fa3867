"""Layer 0: what every other package may use. Pure values, no I/O."""
