"""What applications build on a consumer: retries, deduplication, work in parallel.

retry              a record that fails is tried again where it lies, while its partition pauses
retry_topics       ... or later, in other topics; dead_letters: a topic for what nobody could handle
dedup              messages that come twice are done once
parallel           many records at a time, those of a key in order
outside_offsets    offsets in the application's own database
"""
