"""Packs, folders, data sets and iterables to batches on the device, before they are asked for."""
