"""The job queue and its workers, based on DBOS, which no other package uses; and the execution of runs."""
