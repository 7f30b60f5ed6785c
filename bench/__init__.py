"""Measurements of the runtime on the machine at hand. The runtime never imports this."""
