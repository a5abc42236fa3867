"""Transactions: who owns a transactional id, what belongs to its transaction, and how that ends."""
