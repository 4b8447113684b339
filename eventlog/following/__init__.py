"""Followers: how subscriptions learn that there is something new."""
