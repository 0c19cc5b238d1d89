"""The job queue and its workers, which only this package builds on DBOS, and the execution of runs."""
