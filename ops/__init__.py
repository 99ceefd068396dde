"""The command line, the demo and the local stack."""
