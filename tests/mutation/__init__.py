"""Mutation testing: inserts small faults into src/assent/domain, one at a time, and checks that tests detect them."""
