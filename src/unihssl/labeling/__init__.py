"""A local page on which a person labels the images of a CSV."""
