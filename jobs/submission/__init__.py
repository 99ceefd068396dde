"""Preparation of checked messages from payloads, for clients and for handlers that submit."""
