"""The door outwards, against real receivers."""
