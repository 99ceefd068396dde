"""Whole stages on AWS: what a deployed one has, and the removal of one."""
