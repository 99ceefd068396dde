"""The command ``headgate``: a module for each noun, and for each verb that stands alone."""
