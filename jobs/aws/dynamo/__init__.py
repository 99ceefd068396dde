"""The ports of tables on DynamoDB."""
