"""The tests of dramatiq-unique."""
