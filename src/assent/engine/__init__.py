"""DBOS, and the only place that knows it: the queue of side effects and the workers that empty it."""
