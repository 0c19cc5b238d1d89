"""Create, release, resume: Assent and its peers, each used as documented and in a separate environment."""
