"""Resources that an app uses and something else created, and their names and ARNs."""
