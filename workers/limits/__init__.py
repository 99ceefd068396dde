"""Limits at work: of this worker, and of the fleet through leases."""
