"""The locks on every engine at hand: each Redis and Valkey, a cluster, and a Sentinel's master."""
