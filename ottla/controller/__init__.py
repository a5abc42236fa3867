"""The controller: decides about topics, partitions and leaders. Takes facts, returns what is to be done."""
