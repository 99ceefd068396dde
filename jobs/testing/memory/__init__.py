"""AWS in memory, with its limits, on a clock that the test owns."""
