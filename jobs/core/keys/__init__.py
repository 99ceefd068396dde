"""Keys of encryption: which an app names, and the data keys of a process."""
