"""Run records read back: their tag, the committed evidence of them, the check of published numbers, the report page."""
