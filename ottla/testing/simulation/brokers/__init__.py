"""Whole brokers in virtual time: the real log, codecs, frames and handlers, on disks and wires that are not real.

node          a broker as a node of the world: its disk outlives it, its loop does not
admin         an administrator: moves replicas, creates and deletes topics, elects leaders
clients       producers and readers that speak Kafka's protocol over virtual TCP, and write down what they saw
transactions  writers of transactions, whose coordinators move
outcomes      how those ended, against what their writers were told
ears          counts what brokers say to each other where that is rare
faults        carries out the faults of a schedule
invariants    what must hold after every event, read from the brokers' own partitions
truth         what is so, whatever brokers believe: the metadata store, and who died how
sometimes     what must have happened in some run
runner        one run from one seed
"""
