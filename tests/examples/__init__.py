"""The programs in examples/, run as they are, against a live server."""
