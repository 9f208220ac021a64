"""Other last bits, as another processor, another BLAS or another compiler has them: `PIED_DISTURB=1 pytest`.

What linear algebra returns is changed by a few units of its last place. The change depends on the number itself and on
the value of the variable, so that the same run twice is the same still: only tests that rely on the last bits of one
machine fail. Another value disturbs in another way.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

SIZE = 1e-15  # relative


def install(phase: float) -> None:
    """Disturb the factorizations that beliefs and searches rest on, for the life of this process."""

    def change(values: Any, cos: Callable[[Any], Any]) -> Any:
        return 1.0 + SIZE * cos(1e6 * values + phase)

    cholesky_ex, cholesky, inv = torch.linalg.cholesky_ex, np.linalg.cholesky, np.linalg.inv

    def disturbed_cholesky_ex(A: torch.Tensor, **words: Any) -> Any:
        found = cholesky_ex(A, **words)
        if words.get("out") is not None or A.dtype != torch.float64:
            return found
        return torch.return_types.linalg_cholesky_ex((found.L * change(found.L.detach(), torch.cos), found.info))

    torch.linalg.cholesky_ex = disturbed_cholesky_ex
    np.linalg.cholesky = lambda a, **words: (L := cholesky(a, **words)) * change(L, np.cos)
    np.linalg.inv = lambda a: (found := inv(a)) * change(found, np.cos)
