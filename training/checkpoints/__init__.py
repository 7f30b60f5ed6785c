"""Language models as PyTorch sees them, read from GGUF files or from Hugging Face checkpoints."""
