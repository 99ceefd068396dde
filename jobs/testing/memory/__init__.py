"""AWS in memory, with its limits, on a clock under the test's control."""
