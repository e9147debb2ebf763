"""Products of windows of an image, as convolutions have them."""
