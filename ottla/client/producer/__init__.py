"""The producer: records are gathered in batches, and a sender brings them to the leaders."""
