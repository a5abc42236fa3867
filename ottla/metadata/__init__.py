"""The metadata store: what the cluster must remember, behind one interface."""
