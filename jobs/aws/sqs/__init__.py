"""The ports of queues on SQS."""
