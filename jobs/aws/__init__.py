"""Implementations of the ports on AWS; the only package that touches an AWS SDK."""
