"""A real browser for one task: headless, with an empty profile, and kept to what it may reach."""
