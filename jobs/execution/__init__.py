"""One delivery from message to verdict, shared by worker, Lambda and tests."""
