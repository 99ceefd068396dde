"""DynamoDB behind the ports."""
