"""Handlers and all that users write beside them: resources, code around attempts, and hooks."""
