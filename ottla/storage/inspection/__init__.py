"""A log looked at from outside, by its files alone: is it whole, what lies where, and how it is put right again.

Nothing here needs a broker or a topic's settings. `verify` only reads; `repair` writes what it was told to, and moves
what is damaged to quarantine before anything in its place changes.
"""
