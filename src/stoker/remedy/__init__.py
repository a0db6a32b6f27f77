"""Fixes applied to a running script: one file a remedy, undone when the script ends.

What stands here runs inside the user's training: standard library only, and never in its way.
"""
