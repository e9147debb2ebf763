"""The speed of tiledsl on an NVIDIA GPU beside its peers: `python -m benchmarks.gpu memory|launch|compile|gemm|all`."""
