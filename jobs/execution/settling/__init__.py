"""What becomes of a message: decided from its outcome, and carried out."""
