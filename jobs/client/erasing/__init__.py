"""``client.erase``: one tenant's data, deleted wherever an app keeps it."""
