"""Connections to AWS, shared by all its services: clients, credentials, retries and faults."""
