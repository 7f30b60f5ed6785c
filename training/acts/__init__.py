"""Fits the dialogue-act classifier on DailyDialog."""
