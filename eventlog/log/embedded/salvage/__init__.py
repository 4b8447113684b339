"""Looking at a damaged LMDB file, in child processes."""
