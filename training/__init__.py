"""Offline training. Imports the runtime's types; the runtime never imports this."""
