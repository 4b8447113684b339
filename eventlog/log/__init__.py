"""Where events live: one small contract (`base.py`) and the engines that fulfil it."""
