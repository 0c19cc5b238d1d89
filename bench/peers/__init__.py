"""Create, release, resume: Assent and its peers, each as its documentation says and in an environment of its own."""
