"""Leg Q and `stoker storage`: what reads of given files cost, cold and warm, alone and together.

`residency`, `reading` and `leg` use the standard library only, for they also run inside the
examined process; `scaling`, `fit` and `evaluate` turn what they wrote into records, in the parent.
Nothing here writes, but for `scratch`, which leaves nothing behind.
"""
