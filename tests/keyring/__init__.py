"""The keys of stored secrets, and the references by which settings name secrets."""
