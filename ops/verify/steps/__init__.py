"""The steps of `headgate verify`: the app that they drive, where it is, and what each one tries."""
