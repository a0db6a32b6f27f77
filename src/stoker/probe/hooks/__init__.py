"""One file a library: the only places that assign to other people's attributes, always restored."""
