"""The commands that look at a deployment before it is made."""
