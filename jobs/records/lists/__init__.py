"""The lists of jobs in the table's index: their entries, and several lists read as one."""
