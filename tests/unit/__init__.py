"""The parts of the package, one by one."""
