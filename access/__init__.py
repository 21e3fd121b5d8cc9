"""Who may ask what, and where: checks of arguments, the bearer token, the server's address.

May import: config, core, mnelo_locale.
"""
