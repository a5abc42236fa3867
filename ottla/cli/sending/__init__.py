"""What `ottla produce` is made of: inputs, the records in them, the way to the brokers, and what is said of it."""
