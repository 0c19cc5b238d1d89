"""Benchmarks that compare Assent with a baseline in the same run and print ratios; slow results never fail a run."""
