"""Shapes of arrays as annotations: `Float64[ndarray, "b d"]` is an array of doubles with axes b and d.

The tests check them at run time with jaxtyping, which they load first. Elsewhere they are read by people and by mypy,
and loading jaxtyping would only make every command slower.
"""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.modules.get("jaxtyping") is not None:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float64 as Float64
    from jaxtyping import Int as Int
    from jaxtyping import Int64 as Int64
else:

    class _Shape:
        """Stands for the type of the array alone."""

        def __class_getitem__(cls, words: tuple[Any, str]) -> Any:
            return words[0]

    Bool = Float64 = Int = Int64 = _Shape
