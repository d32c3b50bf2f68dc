"""Random interleavings of everything that can happen to messages and their locks."""
