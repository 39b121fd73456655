"""Looking at what was changed: which files, which lines, and putting one of them back."""
