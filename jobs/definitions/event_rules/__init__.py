"""Event rules, which submit jobs for EventBridge events, and the patterns that these match."""
