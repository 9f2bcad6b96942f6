"""The command line; nothing else imports it."""
