"""Tensors that a user hands over, read as arrays; torch is asked for only if the user has loaded it."""

import sys
from typing import Any

import numpy as np


def is_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dense(tensor: Any) -> np.ndarray:
    """Return any tensor as an array: sparse and quantized ones become dense, short floats become doubles.

    Raises:
        RuntimeError, TypeError, NotImplementedError: NumPy has no such numbers.
    """
    plain = tensor.detach().dequantize() if tensor.is_quantized else tensor.detach()
    plain = (plain.to_dense() if str(plain.layout) != "torch.strided" else plain).cpu()
    try:
        return np.asarray(plain.resolve_conj().resolve_neg().numpy())
    except TypeError:  # NumPy has no bfloat16
        return np.asarray(plain.double().numpy())
