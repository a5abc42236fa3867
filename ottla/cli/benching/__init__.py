"""What `ottla bench` measures, and how it is shown.

running      the loop, the topics that are made for a measurement, and that they are gone afterwards
measuring    latencies and rates
clients      one producer, one consumer, and both of them in turns
curve        throughput by number of partitions
showing      tables, lines, bars, JSON
progress     a bar on a terminal
canvas chart font    the curve as a PNG, without any library
"""
