"""The wire format: envelopes, ids, foreign messages, large payloads, schema upgrades."""
