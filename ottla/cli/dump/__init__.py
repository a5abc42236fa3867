"""`ottla log dump`: readers that turn the files of a log into rows, and writers that print rows."""
