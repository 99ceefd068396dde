"""Functions that run on AWS Lambda."""
