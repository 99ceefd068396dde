"""Output of the commands: what each reads, as text for people or as JSON for programs."""
