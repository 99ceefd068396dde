"""AWS JSON calls for a fraction of the CPU that botocore takes: our own signer, and plain HTTP."""
