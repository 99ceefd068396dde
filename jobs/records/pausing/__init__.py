"""Pauses: the requests that nothing of a queue, a type or a tenant starts for a while."""
