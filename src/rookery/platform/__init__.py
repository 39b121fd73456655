"""What the operating system offers, for every part: knows nothing of agents."""
