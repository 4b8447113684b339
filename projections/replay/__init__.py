"""From events to a state: the protocol, the replay loop, checkpoints."""
