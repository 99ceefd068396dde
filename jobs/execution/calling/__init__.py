"""The call of a handler: claimed, within its surroundings, with one outcome."""
