"""Builds llama-cpp-python from its source release with our patches; see README.md in this folder."""
