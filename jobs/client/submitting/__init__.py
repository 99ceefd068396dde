"""The way of checked submissions through a client: held or unique, stored, sent, recorded."""
