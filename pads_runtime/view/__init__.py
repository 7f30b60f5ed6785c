"""What a running talk looks like in a terminal: a pure reduction of the trace, and ways to show it."""
