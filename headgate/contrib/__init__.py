"""Headgate in web frameworks: `headgate.contrib.fastapi`, `headgate.contrib.django`,
`headgate.contrib.flask`.

Each is imported by itself, and needs its framework. What they do is a few lines over a client.
"""
