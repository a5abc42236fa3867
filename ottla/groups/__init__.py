"""Groups of consumers: who is in them, who reads what, and how far they have read."""
