"""What others keep conversations in, each through its own public package.

Knows nothing of the engine.

`base.py` says what a peer is asked to do, each further file is one peer, and `registry.py` lists them.  Their packages
are in the optional group `bench`; a peer that cannot be imported or started is reported, not skipped.
"""
