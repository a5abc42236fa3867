"""`ottla log verify`, `repair`, `segments` and `find`: what an inspection of files tells, printed."""
