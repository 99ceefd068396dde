"""Queues, table, bucket, keys, permissions and logs."""
