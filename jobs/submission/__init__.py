"""From a payload to a checked message, for clients and for handlers that submit."""
