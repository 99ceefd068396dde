"""The commands that run an app, or a whole system, on this machine."""
