"""A world in one thread: virtual time, a network that loses things, nodes that die, all drawn from one integer.

world            the clock, the queue of events, nodes and their deaths, invariants, the trace
network          what becomes of a message: lost, doubled, late, cut off
storms           faults drawn from the seed
replicated_log   one partition with a leader, epochs, a high watermark and failover
producer_states  who may write to a partition in a transaction
shard_host       hosts a `Machine` on such a partition: decide, append, apply, reply at the high watermark

The same seed gives the same run, to the last event. No wall clock and no threads.
"""
