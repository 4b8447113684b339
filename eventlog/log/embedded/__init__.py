"""The embedded engine: a journal, a memtable and LMDB segments in one directory."""
