"""The deployment of an app as values, and the checks of it."""
