"""Recorded meetings as users: the AMI corpus replayed against the turn machine, one participant at a time."""
