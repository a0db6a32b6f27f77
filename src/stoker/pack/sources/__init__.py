"""What can be packed: each kind lists its samples in order and reads one when asked. Reads only."""
