"""The worker: it receives, chooses, runs and settles jobs in one event loop."""

if not __name__.startswith("headgate."):
    raise ImportError(
        "'workers' is a folder of Headgate's sources: write `import headgate.workers`"
    )
