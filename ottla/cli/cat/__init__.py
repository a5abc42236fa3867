"""Layer 6: `ottla cat`, which takes the words of kcat's command line.

command     the options, which mode they mean, and who does it
words       what single words mean: delimiters, offsets, headers
config      kcat.conf, -F, -X list and -X dump
metadata    -L
query       -Q
envelope    -J: a record as kcat's JSON
packing     -s: numbers and Avro in keys and values
producing   -P
consuming   -C and -G
brokers     -M
"""
