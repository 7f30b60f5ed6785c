"""What every benchmark is run with: conditions, energy, intervals, children, baseline and candidate in turn."""
