"""``python -m colla.bench``: the backends ``colla`` and ``gloo`` of torch.distributed, side by side."""
