"""Interfaces of the AWS services that Headgate uses, implemented on AWS and in memory for tests.

One module for each service; a conformance suite holds both implementations to the service's
documented behaviour. The ports for an event loop are named ``AsyncX``, those for synchronous code
``X``.
"""
