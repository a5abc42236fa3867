"""What `ottla consume` is made of.

choice      which partitions are read, from where and up to where
stretches   the same as offsets: where each partition starts, and where it is done
encoders    records as bytes: values, JSON, a format; and what a terminal must not see
output      stdout as something that is written in pieces, and may hang up
progress    how far it is, on stderr
remarks     what the client has to complain about, said once
reading     the loop
"""
