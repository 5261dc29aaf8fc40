"""The report of a run as one HTML file, and runs side by side. Reads run folders, and shows what evaluation gives."""
