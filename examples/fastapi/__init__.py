"""A FastAPI app that submits jobs and tells their states."""
