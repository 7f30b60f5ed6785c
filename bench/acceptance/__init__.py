"""How many drafted tokens the whole model accepts, by exit, draft length and kind of exit."""
