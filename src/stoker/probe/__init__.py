"""Measuring somebody else's script; knows no theory.

Modules imported by the examined process (`bootstrap`, `hooks`, `legs`, `snapshot`, `drain`,
`worker`, `stages`, `host`) use the standard library and the hooked library only.
"""
