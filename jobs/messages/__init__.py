"""The wire format: envelopes, foreign messages, large payloads, schema upgrades."""
