"""An AI assistant's background jobs: memories, documents, learning, sessions, usage, webhooks."""
