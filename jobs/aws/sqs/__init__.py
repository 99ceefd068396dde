"""SQS behind the ports."""
