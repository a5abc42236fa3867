"""What applications build on a consumer: retries, deduplication, work in parallel."""
