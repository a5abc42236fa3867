"""A whole cluster on objects: replication and controller as they are, on logs that are lists, in virtual time.

settings     how large the cluster is, and how long everything takes in it
object_log   a partition's log: records, epochs, producers, open transactions, what is flushed
messages     what goes over the network; `calls` are questions that wait for an answer
broker       one broker, over its deaths; `life` is what it does in one of its lives
replicas     its partitions, `requests` what others ask of it, `controller` the real host of the controller on it
clients      producers and writers of transactions; `readers`, an `admin`: all write histories
faults       what can go wrong, as plain values; `profiles` say which of it may
schedule     one run, drawn from its seed before it begins: faults and work; JSON and back
injection    lets the faults happen
truth        the states in the store, and what was ever committed
invariants   what must hold after every event; `ending`: what must hold after everything was healed
sometimes    what must happen in some run, or the runs prove nothing
runner       runs one schedule; `crowd` runs many; `shrink` makes a failing one small
"""
