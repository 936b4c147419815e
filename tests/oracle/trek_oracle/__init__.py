"""The strict rules of Trek a second time, in plain Python and numpy (see ../README.md)."""
