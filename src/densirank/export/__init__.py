"""Models for other systems: vectors for a database, an ONNX graph for a runtime."""
