"""Deployments of one stage in several regions."""
