"""What a partition decides: who leads, who is in sync, what is committed. No I/O but through the log it is given."""
