"""The classic tools for administration and Apache's own print the same, on an Ottla broker and on Apache Kafka 4.3."""

from collections.abc import Iterator

import pytest

from ottla.client import Producer
from tests.interop.classic.compare import compare, lines, running
from tests.oracles.apache_tools import ApacheTools

FILES = {
    "delete.json": '{"partitions": [{"topic": "t1", "partition": 0, "offset": 2},'
    ' {"topic": "t1", "partition": 5, "offset": -1}], "version": 1}',
    "too-far.json": '{"partitions": [{"topic": "t1", "partition": 1, "offset": 77}]}',
    "twice.json": '{"partitions": [{"topic": "t", "partition": 0, "offset": 0},'
    ' {"topic": "t", "partition": 0, "offset": 1}]}',
    "bad.json": "{",
    "version.json": '{"version": 2}',
    "no-partitions.json": "{}",
    "no-number.json": '{"partitions": [{"topic": "a"}]}',
    "text.json": '{"partitions": [{"topic": "a", "partition": "x"}]}',
    "some.properties": "retention.ms=5\n# a comment\nflush.ms = 7\n",
    "client.properties": "request.timeout.ms=20000\nclient.id=me\n",
}
NO_BROKER = """
    kafka-topics
    kafka-topics --list
    kafka-topics --version
    kafka-topics --bootstrap-server nonsense --list
    kafka-configs
    kafka-configs --bogus
    kafka-configs --version
    kafka-configs --describe
    kafka-configs --describe --entity-type topics
    kafka-configs --bootstrap-server nonsense --describe --topic t
    kafka-get-offsets
    kafka-get-offsets --topic t1
    kafka-get-offsets --bogus
    kafka-get-offsets --bootstrap-server nonsense
    kafka-delete-records
    kafka-delete-records --bogus
    kafka-log-dirs
    kafka-log-dirs --bogus
    kafka-log-dirs --bootstrap-server nonsense --describe
    kafka-delete-records --bootstrap-server nonsense --offset-json-file @D/delete.json
    kafka-broker-api-versions --bootstrap-server nonsense
    kafka-broker-api-versions
    kafka-broker-api-versions --bogus
"""
SETUP = """
    kafka-topics -B --create --topic t1 --partitions 12 --config retention.ms=-1
    kafka-topics -B --create --topic t.2_x --config retention.ms=1000 --config cleanup.policy=compact
    kafka-topics -B --create --topic other --config segment.bytes=1048576 --config max.message.bytes=2000
    kafka-topics -B --create --topic __consumer_offsets
"""
CREATE = """
    kafka-topics -B --create --topic new-%
    kafka-topics -B --create --topic new-%
    kafka-topics -B --create --topic new-% --if-not-exists
    kafka-topics -B --create --topic dot.and_line-% --partitions 2 --replication-factor 1
    kafka-topics -B --create --topic placed-% --replica-assignment 1,1,1
    kafka-topics -B --create --topic set-% --config retention.ms=1 --config "flush.ms = 5"
    kafka-topics -B --describe --topic set-%
    kafka-topics -B --create --topic bad --replication-factor 0
    kafka-topics -B --create --topic bad --partitions 0
    kafka-topics -B --create --topic bad --partitions x
    kafka-topics -B --create --topic bad --config retention.ms
    kafka-topics -B --create --topic bad --config retention.ms=
    kafka-topics -B --create --topic bad --config a=b=c
    kafka-topics -B --create --topic bad --config bogus=1
    kafka-topics -B --create --topic bad --config retention.ms=abc
    kafka-topics -B --create --topic bad --config preallocate=abc
    kafka-topics -B --create --topic bad --config min.cleanable.dirty.ratio=abc
    kafka-topics -B --create --topic "bad name"
    kafka-topics -B --create --topic bad --replication-factor 3
    kafka-topics -B --create --topic bad --replica-assignment 1:1
    kafka-topics -B --create --topic bad --replica-assignment 1:2,1
    kafka-topics -B --create --topic bad --replica-assignment a
    kafka-topics -B --create --topic bad --replica-assignment 9
    kafka-topics -B --create --topic bad --replica-assignment 1 --partitions 1
    kafka-topics -B --create
    kafka-topics -B --create --topic
    kafka-topics -B --alter --topic new-% --partitions 3
    kafka-topics -B --alter --topic new-% --partitions 3
    kafka-topics -B --alter --topic new-% --partitions 1
    kafka-topics -B --alter --topic new-% --partitions 0
    kafka-topics -B --alter --topic new-% --partitions x
    kafka-topics -B --alter --topic new-% --partitions 4 --replica-assignment 1,1,1,1
    kafka-topics -B --alter --topic new-% --partitions 6 --replica-assignment 1,1,1,1
    kafka-topics -B --alter --topic new-%
    kafka-topics -B --alter --topic new-% --config a=b
    kafka-topics -B --alter --topic new-% --delete-config a
    kafka-topics -B --alter --topic nope --partitions 3
    kafka-topics -B --alter --topic nope --partitions 3 --if-exists
    kafka-topics -B --delete
    kafka-topics -B --delete --topic nope
    kafka-topics -B --delete --topic nope --if-exists
    kafka-topics -B --delete --topic "new-%|dot.and_line-%|placed-%|set-%"
    kafka-topics -B --list
"""
LOOK = """
    kafka-topics -B
    kafka-topics -B --bogus
    kafka-topics -B --list --create
    kafka-topics -B --list
    kafka-topics -B --list --exclude-internal
    kafka-topics -B --list --topic t.*
    kafka-topics -B --list --topic t1,other
    kafka-topics -B --list --topic nothing
    kafka-topics -B --list some more words
    kafka-topics -B --list --partitions 3
    kafka-topics -B --list --if-exists
    kafka-topics -B --list --command-config @D/client.properties
    kafka-topics -B --list --command-config @D/none.properties
    kafka-topics -B -B --list
    kafka-topics -B --li
    kafka-topics --bootstrap-server=@S --list
    kafka-topics -B --describe
    kafka-topics -B --describe --exclude-internal
    kafka-topics -B --describe --topic t1
    kafka-topics -B --describe --topic t1 --partition-size-limit-per-response 3
    kafka-topics -B --describe --topic "t.2_x|other"
    kafka-topics -B --describe --topic nope
    kafka-topics -B --describe --topic nope --if-exists
    kafka-topics -B --describe --if-exists
    kafka-topics -B --describe --topic (
    kafka-topics -B --describe --topics-with-overrides
    kafka-topics -B --describe --under-replicated-partitions
    kafka-topics -B --describe --unavailable-partitions
    kafka-topics -B --describe --under-min-isr-partitions
    kafka-topics -B --describe --at-min-isr-partitions
    kafka-topics -B --describe --at-min-isr-partitions --topics-with-overrides
    kafka-topics -B --describe --topic-id AAAAAAAAAAAAAAAAAAAAAA --topic t1
    kafka-topics -B --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ
    kafka-topics -B --describe --topic-id x
    kafka-topics -B --describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ --topic t1 --if-exists
    kafka-get-offsets -B
    kafka-get-offsets -B --exclude-internal-topics
    kafka-get-offsets -B --topic t1 --time -2
    kafka-get-offsets -B --topic t1 --time max-timestamp
    kafka-get-offsets -B --topic t1 --time abc
    kafka-get-offsets -B --topic t1 --time 5
    kafka-get-offsets -B --topic t1 --time 1003
    kafka-get-offsets -B --topic t1 --time -4
    kafka-get-offsets -B --topic t1 --time -5
    kafka-get-offsets -B --topic t1 --time -6
    kafka-get-offsets -B --topic t1 --partitions 1,2
    kafka-get-offsets -B --topic t1 --partitions a
    kafka-get-offsets -B --topic nope
    kafka-get-offsets -B --topic-partitions t1:0-2,t.*:0
    kafka-get-offsets -B --topic-partitions t1:3-,:0
    kafka-get-offsets -B --topic-partitions t1:-4
    kafka-get-offsets -B --topic-partitions t1:x
    kafka-get-offsets -B --topic-partitions t1 --topic t1
    kafka-delete-records -B
    kafka-delete-records -B --offset-json-file @D/none.json
    kafka-delete-records -B --offset-json-file @D/bad.json
    kafka-delete-records -B --offset-json-file @D/twice.json
    kafka-delete-records -B --offset-json-file @D/version.json
    kafka-delete-records -B --offset-json-file @D/no-partitions.json
    kafka-delete-records -B --offset-json-file @D/no-number.json
    kafka-delete-records -B --offset-json-file @D/text.json
    kafka-delete-records -B --offset-json-file @D/delete.json
    kafka-delete-records -B --offset-json-file @D/too-far.json
    kafka-log-dirs -B
    kafka-log-dirs -B --describe
    kafka-log-dirs -B --describe --topic-list t1,other
    kafka-log-dirs -B --describe --broker-list 1
    kafka-log-dirs -B --describe --broker-list 1,9
    kafka-log-dirs -B --describe --broker-list a
    kafka-broker-api-versions -B
"""
SETTINGS = """
    kafka-topics -B --create --topic c-% --config retention.ms=1000
    kafka-configs -B --describe
    kafka-configs -B --entity-type topics
    kafka-configs -B --describe --entity-type nonsense
    kafka-configs -B --bootstrap-controller @S --describe --entity-type topics
    kafka-configs -B --describe --entity-type topics --entity-type brokers
    kafka-configs -B --describe --entity-type topics --entity-type topics
    kafka-configs -B --describe --entity-type topics --entity-default
    kafka-configs -B --describe --entity-type topics --add-config a=b
    kafka-configs -B --describe --alter --entity-type topics
    kafka-configs -B --describe --entity-type brokers --entity-name a
    kafka-configs -B --describe --entity-type broker-loggers
    kafka-configs -B --describe --entity-type topics --client x
    kafka-configs -B --describe --entity-type topics --entity-name c-%
    kafka-configs -B --describe --topic c-% --all
    kafka-configs -B --describe --topic nope
    kafka-configs -B --describe --topic nope --all
    kafka-configs -B --describe --topic "bad name"
    kafka-configs -B --describe --entity-type topics --entity-name ""
    kafka-configs -B --describe --topic a --topic b
    kafka-configs -B --alter --topic c-% --add-config cleanup.policy=[compact,delete],flush.ms=1
    kafka-configs -B --alter --topic c-% --add-config segment.bytes=1048576 --delete-config retention.ms
    kafka-configs -B --describe --topic c-%
    kafka-configs -B --alter --topic c-% --delete-config retention.ms
    kafka-configs -B --alter --topic c-% --add-config bogus=1
    kafka-configs -B --alter --topic c-% --add-config retention.ms=abc
    kafka-configs -B --alter --topic c-% --add-config retention.ms
    kafka-configs -B --alter --topic c-% --add-config "re tention=1"
    kafka-configs -B --alter --topic c-%
    kafka-configs -B --alter --topic nope --add-config retention.ms=1
    kafka-configs -B --alter --entity-type topics --add-config retention.ms=1
    kafka-configs -B --alter --entity-type topics --entity-default --add-config retention.ms=1
    kafka-configs -B --alter --topic c-% --add-config-file @D/none.properties
    kafka-configs -B --alter --topic c-% --add-config-file @D/some.properties
    kafka-configs -B --alter --topic c-% --add-config-file @D/some.properties --add-config a=b
    kafka-configs -B --describe --topic c-%
    kafka-configs -B --describe --entity-type brokers
    kafka-configs -B --describe --broker-defaults
    kafka-configs -B --describe --broker 1
    kafka-configs -B --describe --broker 1 --all
    kafka-configs -B --describe --broker 7
    kafka-configs -B --alter --entity-type brokers --add-config log.cleaner.threads=1
    kafka-configs -B --alter --broker-defaults --add-config log.retention.ms=100000
    kafka-configs -B --alter --broker 1 --add-config log.cleaner.threads=2
    kafka-configs -B --alter --broker 1 --add-config broker.id=2
    kafka-configs -B --describe --entity-type brokers
    kafka-configs -B --describe --broker 1
    kafka-configs -B --alter --broker 1 --delete-config log.cleaner.threads
    kafka-configs -B --alter --broker-defaults --delete-config log.retention.ms
    kafka-configs -B --describe --broker-logger 1
    kafka-configs -B --describe --broker-logger 7
    kafka-configs -B --alter --broker-logger 1 --add-config nope=DEBUG
    kafka-configs -B --alter --group g --add-config consumer.session.timeout.ms=50000
    kafka-configs -B --describe --group g
    kafka-configs -B --describe --group g --all
    kafka-configs -B --describe --group nope
    kafka-configs -B --describe --group nope --all
    kafka-configs -B --alter --group g --add-config nope=1
    kafka-configs -B --alter --client-metrics m --add-config metrics=[a.,b.],interval.ms=10000
    kafka-configs -B --describe --client-metrics m
    kafka-configs -B --describe --client-metrics other
    kafka-configs -B --alter --client-metrics m --delete-config metrics
    kafka-configs -B --alter --client-metrics m --add-config bogus=1
    kafka-configs -B --describe --entity-type groups
    kafka-configs -B --describe --entity-type client-metrics
    kafka-topics -B --delete --topic c-%
    kafka-configs -B --alter --group g --delete-config consumer.session.timeout.ms
"""
QUOTAS = """
    kafka-configs -B --alter --client c --add-config producer_byte_rate=1024,consumer_byte_rate=2048
    kafka-configs -B --alter --client-defaults --add-config request_percentage=5000.5
    kafka-configs -B --alter --user u --add-config producer_byte_rate=12345678
    kafka-configs -B --alter --user u --client c --add-config producer_byte_rate=3
    kafka-configs -B --alter --user u2 --client-defaults --add-config producer_byte_rate=3
    kafka-configs -B --alter --user-defaults --add-config controller_mutation_rate=3000
    kafka-configs -B --alter --ip 127.0.0.1 --add-config connection_creation_rate=30000
    kafka-configs -B --alter --ip-defaults --add-config connection_creation_rate=31000
    kafka-configs -B --alter --ip "no such host" --add-config connection_creation_rate=31000
    kafka-configs -B --alter --ip 127.0.0.1 --add-config a=31
    kafka-configs -B --alter --ip 127.0.0.1 --add-config connection_creation_rate=x
    kafka-configs -B --alter --client c --add-config z=1,y=2
    kafka-configs -B --alter --client c --delete-config SCRAM-SHA-256,zz
    kafka-configs -B --alter --client c --add-config producer_byte_rate=x
    kafka-configs -B --alter --client c --add-config producer_byte_rate=0
    kafka-configs -B --alter --client c --delete-config request_percentage
    kafka-configs -B --alter --user u --delete-config b
    kafka-configs -B --alter --user u --add-config b=1
    kafka-configs -B --alter --entity-type users --add-config producer_byte_rate=1
    kafka-configs -B --alter --entity-type users --entity-name a --entity-type clients --add-config producer_byte_rate=1
    kafka-configs -B --alter --user u --client c --add-config SCRAM-SHA-256=[password=x]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=[password=x],SCRAM-SHA-512=[password=y]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=[iterations=8192,password=x]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-512=[password=y]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=[iterations=1,password=x]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=[iterations=20000,password=x]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=foo
    kafka-configs -B --alter --user-defaults --add-config SCRAM-SHA-256=[password=x]
    kafka-configs -B --alter --user s-% --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=1
    kafka-configs -B --describe --client c
    kafka-configs -B --describe --client-defaults
    kafka-configs -B --describe --entity-type clients
    kafka-configs -B --describe --user u
    kafka-configs -B --describe --user u --client c
    kafka-configs -B --describe --entity-type users --entity-name u2 --entity-type clients --entity-default
    kafka-configs -B --describe --entity-type clients --entity-name c --entity-type users --entity-name u
    kafka-configs -B --describe --entity-type users --entity-type clients
    kafka-configs -B --describe --entity-type users
    kafka-configs -B --describe --entity-type users --entity-name a --entity-default
    kafka-configs -B --describe --entity-type ips
    kafka-configs -B --describe --ip 127.0.0.1
    kafka-configs -B --describe --user s-%
    kafka-configs -B --describe --user nobody
    kafka-configs -B --alter --user s-% --delete-config SCRAM-SHA-256
    kafka-configs -B --alter --user s-% --delete-config SCRAM-SHA-256
    kafka-configs -B --alter --user s-% --delete-config SCRAM-SHA-512
"""


@pytest.fixture(scope="module", params=["ottla", "apache"])
def server(request: pytest.FixtureRequest, tools: ApacheTools) -> Iterator[str]:
    with running(request.param) as server:
        for words in lines(SETUP, server, ""):
            assert tools.run(*words).code == 0
        with Producer(bootstrap_servers=server) as producer:
            for number in range(7):
                producer.send("t1", b"some words", partition=number % 2, timestamp_ms=1000 + number)
        yield server


def test_command_lines_that_reach_no_broker_are_refused_alike(tools, files, capfd):
    compare(NO_BROKER, tools, capfd, files=files)


def test_topics_offsets_directories_and_versions_look_alike(tools, server, files, capfd):
    compare(LOOK, tools, capfd, server, files)


def test_topics_are_created_altered_and_deleted_alike(tools, server, files, capfd):
    compare(CREATE, tools, capfd, server, files)


def test_settings_are_described_and_altered_alike(tools, server, files, capfd):
    compare(SETTINGS, tools, capfd, server, files)


def test_quotas_and_passwords_are_described_and_altered_alike(tools, server, files, capfd):
    compare(QUOTAS, tools, capfd, server, files)
