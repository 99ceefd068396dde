"""The dead letters of an outage, sent back to an endpoint that is not well yet."""
