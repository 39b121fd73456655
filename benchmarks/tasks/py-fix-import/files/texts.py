FAREWELL = "Goodbye."
