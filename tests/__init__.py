"""Tests of Assent; each name is a claim that would be false if the code were broken."""
