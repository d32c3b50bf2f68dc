"""What only real processes show: many producers at once, and ``dramatiq`` workers of their own."""
