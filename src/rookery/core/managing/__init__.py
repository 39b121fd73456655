"""What the Agent Manager can be asked, and what it shows."""
