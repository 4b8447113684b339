"""Other libraries that store conversations, each through its public package.

`base.py` defines what a peer does, each further file is one peer, and `registry.py` lists them.
Their packages are in the extra `bench`; a peer that cannot be imported or started is reported, not
skipped. Nothing here imports the engine.
"""
