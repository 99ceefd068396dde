"""Records of jobs in the app's table, and the state that follows from them."""
