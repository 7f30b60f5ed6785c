"""Fits exit translators: small linear maps that let an early exit guess what the whole model will say."""
