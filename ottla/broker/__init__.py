"""The broker: hosts the brains, and answers what clients ask."""
