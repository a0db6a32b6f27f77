"""Pure functions over records: what a scenario gives. Touches no machine and reads no clock."""
