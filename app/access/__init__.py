"""Who may use a server: tokens, sessions, cookies, origins, the login page."""
