"""Reading a damaged LMDB file, in child processes."""
