"""Foreign checkpoints: where they are found, how they are read, what names mean."""
