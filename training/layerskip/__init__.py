"""Continued training after LayerSkip (Elhoushi et al., arXiv 2404.16710) with LoRA (Hu et al., arXiv 2106.09685)."""
