"""The programs of KernelBench (its folder with level1, level2 ..., by path), through `torch.compile`."""
