"""``bench live``: a real talk over virtual devices, measured from what is played and recorded there."""
