"""Small systems that show how Headgate is used."""
