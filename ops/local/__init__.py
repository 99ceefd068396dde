"""AWS on this machine: MiniStack as a child process, and what is corrected in it."""
