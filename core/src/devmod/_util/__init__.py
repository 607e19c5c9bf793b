"""Files, caches, logging and names. Of devmod it imports errors alone."""
