"""Who may ask what, and where: arguments, the server's address, the token."""
