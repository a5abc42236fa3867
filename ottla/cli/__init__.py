"""Layer 5: the `ottla` command, one module per command."""
