"""Layer 5: what tests need, shipped to users: simulated disk and friends."""
