"""An hour of load in a few minutes: real workers on in-memory SQS, in virtual time."""
