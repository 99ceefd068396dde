"""`headgate verify`: tries all that Headgate does on a real account, and reports what it has seen.

It makes a stage of its own, drives it as its users would, and removes it. On a local AWS it tries
what can be tried there.
"""
