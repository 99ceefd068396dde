"""The web console of a deployment, and who signs people in to it."""
