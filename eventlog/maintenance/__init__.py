"""Work on whole stores: backup, repair, erasure, retention, scrub, vacuum."""
