"""Reading and copying dead letters."""
