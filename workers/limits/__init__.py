"""Enforcement of limits: of this worker, and of the fleet through leases."""
