"""Records of jobs: reading what happened before, and writing what happens here."""
