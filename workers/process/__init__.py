"""A worker as an operating system process, alone or supervised."""
