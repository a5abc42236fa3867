"""A whole cluster on objects: replication and controller as they are, on logs that are lists, in virtual time.

object_log   a partition's log: records, epochs, producers, open transactions, what is flushed
settings     how large the cluster is, and how long everything takes in it
messages     what goes over the network
broker       one broker: partitions, the controller's host, what is done for clients
requests     what a broker does with what others ask of it
clients      producers, writers of transactions, readers, an administrator; all write histories
faults       what can go wrong, as plain values
schedule     one run, drawn from its seed before it begins: faults and work; JSON and back
truth        what is committed, by all that the leaders said
invariants   what must hold after every event
ending       what must hold after everything was healed
sometimes    what must happen in some run, or the runs prove nothing
runner       runs one schedule; `crowd` runs many; `shrink` makes a failing one small
"""
