"""Models in ONNX's format. Needs the package `onnx`: `pip install "tiledsl[onnx]"`."""
