"""The admin client: topics, settings, groups, transactions, the cluster."""
