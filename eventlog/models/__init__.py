"""Windows and prices of known models, as data (`models.json`)."""
