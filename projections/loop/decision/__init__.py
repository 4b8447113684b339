"""The next step: a pure function of what the events say."""
