"""Reading and copying what was given up."""
