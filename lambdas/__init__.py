"""Functions that run on AWS Lambda."""

if not __name__.startswith("headgate."):
    raise ImportError(
        "'lambdas' is a folder of Headgate's sources: write `import headgate.lambdas`"
    )
