"""What a lock costs, counted at the server: round trips and bytes, never seconds."""
