"""How large things are: sizes for planners and caps, and what a request is filled with, kind by kind."""
