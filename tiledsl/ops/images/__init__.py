"""Ops of images of one to three axes: convolutions, pooling, windows, resizing, sampling."""
