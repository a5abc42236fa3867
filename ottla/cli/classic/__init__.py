"""Kafka's own tools under their own names: the flags, the output, and the exit codes 0 and 1 that scripts know.

names       which there are, and where
parser      command lines as Apache's tools read them
argparse4j  the same for those tools whose parser is argparse4j
running     one command line, from words to an exit code
zookeeper   `--zookeeper`, as the tools before Kafka 3 wanted it
"""
