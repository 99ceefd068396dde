"""Jobs: declared, submitted, run to their end, recorded, and found again."""

if not __name__.startswith("headgate."):
    raise ImportError("'jobs' is a folder of Headgate's sources: write `from headgate import App`")
