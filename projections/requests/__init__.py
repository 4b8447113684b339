"""Views in the forms of providers and SDKs; a module for each format."""
