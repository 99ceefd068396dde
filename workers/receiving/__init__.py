"""Receiving: the demand on each queue, its polls, and the heartbeat of held messages."""
