"""Whether a store is sound, and still the one whose head was kept."""
