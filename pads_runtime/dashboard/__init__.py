"""A local page that shows a running talk, the machine and the latest runs. Read-only; it only reads run records."""
