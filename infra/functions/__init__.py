"""The Lambda functions, their code, and the schedules, rules and mappings that invoke them."""
