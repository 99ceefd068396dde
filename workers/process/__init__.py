"""A worker as an operating system's process, alone or supervised."""
