"""Transcripts of dialogue as text to train and evaluate language models on."""
