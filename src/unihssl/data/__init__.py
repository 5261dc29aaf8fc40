"""From folders, CSV files and arrays to batches on the device."""
