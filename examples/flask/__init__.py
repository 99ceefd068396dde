"""A Flask app that submits jobs; their handlers run in its application context."""
