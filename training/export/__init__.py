"""From a trained adapter to GGUF files: merge, write F16, quantise once from it."""
