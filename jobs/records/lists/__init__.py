"""Lists of jobs: those of the table's index, read as one, and the children of a job."""
