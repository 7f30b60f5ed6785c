"""How long the person waits, by strategy: the same turns with injected pauses, the same model, the same machine."""
