"""Worker processes that write into shared memory: for work that holds the GIL."""
