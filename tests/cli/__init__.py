"""The command line: what it prints, how it ends, and that nothing is released by accident."""
