"""Readers of annotated corpora in their own layout. Nothing is downloaded; an absent corpus is an error by name."""
