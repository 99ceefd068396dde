"""A travel platform's background jobs: rooms kept in step with booking partners, and payments."""
