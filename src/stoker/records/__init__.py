"""The frozen records that pass between the parts: what was measured, assumed and concluded.

No input or output (but for text in `codec`), no arithmetic beyond derived properties.
"""
