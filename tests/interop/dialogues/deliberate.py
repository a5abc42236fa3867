"""Where Ottla answers otherwise than Apache Kafka, and means to: a pattern of the field, and the reason.

A pattern matches a whole line of `talk.differences`: the API, the question, the path of the field.
"""

_UNKNOWN = "there is a code for it, Kafka answers UNKNOWN_SERVER_ERROR"
_ALL = "everything that was asked for is answered for, Kafka leaves this out"
_TO_COME = "more is to come"
_NEW_TOPIC = r"CreateTopics .*: \.topics\[.*\]\.configs"
_OF_TOPIC = r"DescribeConfigs .*: \.results\[.*\]\.configs"
_OF_BROKER = r"DescribeConfigs (some of )?broker( synonyms)?: \.results\[1\]\.configs"
_PRODUCED = r"\.responses\[.*\]\.partition_responses\[0\]"
_FETCHED = r"\.responses\[.*\]\.partitions\[0\]"

MEANT = {
    # --- topics ------------------------------------------------------------------------------------------------
    r"CreateTopics both collide: \.topics\[new_one\].*": (
        "Kafka looks for collisions among the topics that are there, not among those of the request"
    ),
    r"CreateTopics spaces.*\[retention\.ms\]\.value": "numbers are told as they were understood",
    r"DeleteTopics as both: .*": _ALL,
    r"CreatePartitions too many: .*": _UNKNOWN,
    r"Metadata creates: \.topics\[auto-.*": "the topic is there when we answer, Kafka asks to come again",
    r"Metadata neither: .*": _UNKNOWN,
    r"Metadata some by id: .*": _ALL,
    r"DescribeTopicPartitions .*: \.topics\[.*\]\.topic_authorized_operations": (
        "Kafka tells what one may do with a topic that is not there"
    ),
    r"DescribeTopicPartitions empty name: .*": _UNKNOWN,
    # --- the cluster -------------------------------------------------------------------------------------------
    r"ApiVersions .*: \.api_keys(#|\[\d+\])": _TO_COME,
    r"ApiVersions .*: \.api_keys\[\d+\]\.min_version": "Kafka 4 gave up versions that clients still speak",
    r"ApiVersions .*: \.api_keys\[22\]\.max_version": "Kafka has this version, but does not call it stable",
    r"ApiVersions .*: \.(supported|finalized)_features.*": _TO_COME,
    # --- settings ----------------------------------------------------------------------------------------------
    rf"({_NEW_TOPIC}|{_OF_TOPIC})#": "the following ones",
    rf"({_NEW_TOPIC}|{_OF_TOPIC})\[(producer\.id\.expiration\.ms|remote\.copy\.lag\.(bytes|ms))\]": (
        "a topic has settings here that Kafka has for brokers, or will have in its next version"
    ),
    rf"({_NEW_TOPIC}|{_OF_TOPIC})\[min\.insync\.replicas\].*": (
        "Kafka stores it for all brokers when eligible leader replicas are on, which we do not have"
    ),
    rf"{_OF_TOPIC}\[.*\]\.synonyms.*": (
        "a default is told under the name of the key behind it; Kafka tells none where that is empty, in other "
        "units, or not there"
    ),
    r"DescribeConfigs group: .*": _TO_COME,
    rf"{_OF_BROKER}\[[^]]*\]": "each broker has settings for what it consists of",
    rf"{_OF_BROKER}\[(controller|group\.initial|offsets\.topic|share|transaction|process)\..*": (
        "Kafka was started with these, to be one node that starts soon"
    ),
    rf"{_OF_BROKER}\[(advertised|early\.start)?\.?listeners\].*": "addresses; an empty list is not null",
    rf"{_OF_BROKER}\[(log\.dirs?)\].*": "the directory is each broker's own",
    rf"{_OF_BROKER}\[log\.(retention|roll|roll\.jitter|flush\.interval)\.(ms|minutes|hours)\].*": (
        "what is not set in milliseconds has its value there, not in Kafka's hours; all units can be changed"
    ),
    rf"{_OF_BROKER}\[(listener\.security\.protocol\.map|max\.connections\.per\.ip\.overrides)\].*": (
        "a list is called a list, and kept in order"
    ),
    rf"{_OF_BROKER}\[log\.cleaner\.enable\]\.read_only": "it pauses compaction while the broker runs",
    rf"{_OF_BROKER}\[metric\.reporters\].value": "there is no JMX",
    rf"{_OF_BROKER}\[socket\..*\].value": "the kernel chooses buffers, and a longer backlog loses no clients",
    r"AlterConfigs all brokers, .*": "see min.insync.replicas: Kafka refuses to reset it",
    r"(Incremental)?AlterConfigs another broker.*": "settings may be there before their broker is",
    r"(Incremental)?AlterConfigs no topic.*": "the name is at fault, not the request",
    r"(Incremental)?AlterConfigs unknown key of broker.*": "what nobody reads is a typing error",
    r"IncrementalAlterConfigs append nothing: .*": "it changes nothing",
    r"IncrementalAlterConfigs operation 9: .*": _UNKNOWN,
    r"IncrementalAlterConfigs .* is '(1 MiB|5m)': .*": "amounts may have units",
    r"IncrementalAlterConfigs .* is '\u0661': .*": "Java reads the digits of all scripts",
    r"IncrementalAlterConfigs retention\.bytes is '-[23]': .*": "-1 says without end, and less says nothing",
    r"IncrementalAlterConfigs segment\.bytes is '\d+': .*": "small segments are for tests",
    r"IncrementalAlterConfigs segment\.index\.bytes is '.*': .*": "an index has room for entries",
    r"IncrementalAlterConfigs (producer\.id\.expiration\.ms|remote\.copy\.lag\.(bytes|ms)) is .*": "see above",
    # --- coordinators ------------------------------------------------------------------------------------------
    r"DescribeGroups two: \.groups(#|\[stable\+\])": "a group that is named twice is described once",
    r"OffsetCommit topic twice: .*": "what is named twice is answered twice; Kafka puts both together",
    r"WriteTxnMarkers no topics: .*": _ALL,
    # --- records -----------------------------------------------------------------------------------------------
    r"Produce bytes behind: .*": "what is no batch was not meant to be stored",
    r"Produce first offset 9: .*": "offsets are given by the log, whatever stood there",
    r"Produce codec 5: .*": "there is a code for it, Kafka answers UNKNOWN_SERVER_ERROR",
    r"Produce not gzip: .*": "nothing opens it on the way in, unless the topic asks for that",
    r"Produce claims the broker's time: .*": "the time is the broker's to set",
    r"Produce (a few bytes|(magic . )?cut short): .*": (
        "a batch without its end is damaged, which a producer may cure by another try"
    ),
    r"Produce null: .*": "no records are refused like an empty set, Kafka never answers",
    r"Produce no partition: .*": _ALL,
    r"Produce (partition|topic) twice: .*": "both are written; Kafka forgets one",
    r"DeleteRecords twice: .*": _ALL,
    rf"Produce too .*: {_PRODUCED}\.record_errors.*": (
        "batches are judged by their header, and not opened to tell which records were too early or too late"
    ),
    rf"Produce step (1|7|15): .*: {_PRODUCED}\.log_append_time_ms": (
        "Kafka tells the time of the producer as that of the log when a batch was sent again"
    ),
    rf"Fetch (old )?-1 bytes of a partition: {_FETCHED}\..*": "as with 0 bytes; Kafka answers UNKNOWN_SERVER_ERROR",
}

MEANT_OF_OLD = {
    # What Kafka 3.9 answers otherwise than Kafka 4, and what only it still speaks.
    rf"({_NEW_TOPIC}|{_OF_TOPIC})\[message\..*\].*": "settings and defaults that Kafka 4 gave up",
    rf"{_OF_TOPIC}\[.*\]\.is_default": "Kafka does not fill in this field of v0 any more",
    r"DescribeConfigs metrics: .*": "the defaults of what nobody has set are told since Kafka 4",
    rf"{_OF_BROKER}\[.*\]\.value": "defaults that Kafka 4 changed",
    r"Offset(Commit|Fetch) .*": "offsets of version 0 are kept as others; Kafka kept them in ZooKeeper, and has none",
    r"Produce codec ZSTD: .*": "KIP-110 wants Produce v7 for it; Kafka forgets to ask before v3",
    r"Produce no bytes: .*": "no records are refused in all versions, not only since v3",
    r"Produce too late by default: .*": "Kafka 4 made it the default to refuse what is an hour ahead",
    rf"Fetch old .*: {_FETCHED}\.records": "converted batches are whole; Kafka cuts or fills them to their old size",
    r"ListOffsets old .*": "the beginnings of segments are told by the times of records, not of files",
}
