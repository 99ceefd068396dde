"""The Lambda functions, their code, and what invokes them."""
