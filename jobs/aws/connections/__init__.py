"""What every service of AWS is reached by: connections, credentials, retries and faults."""
