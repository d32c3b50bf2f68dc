"""The life of messages: the lock suite, on every broker, with the middleware first and last in the list."""
