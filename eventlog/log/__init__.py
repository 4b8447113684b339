"""Where events live: one small contract (`contract.py`) and the engines that fulfil it."""
