"""A trained model as one file that needs neither this package nor, as ONNX, PyTorch."""
