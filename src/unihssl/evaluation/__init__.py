"""Using a trained model: predictions and the numbers that judge them."""
