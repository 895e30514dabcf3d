"""numpy, loaded when it is first used, and names for the types of our arrays.

numpy takes 11 MB. An operator that has no offers to rank, no pods to plan for and no hours to count needs none of it.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Bools", "Codes", "Floats", "Index", "Ints", "Small", "Sums", "Tiny", "Words", "np"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bools: TypeAlias = npt.NDArray[np.bool_]
    Codes: TypeAlias = npt.NDArray[np.int16]
    Floats: TypeAlias = npt.NDArray[np.float64]
    Index: TypeAlias = npt.NDArray[np.intp]
    Ints: TypeAlias = npt.NDArray[np.int64]
    Small: TypeAlias = npt.NDArray[np.int32]
    Sums: TypeAlias = npt.NDArray[np.uint32]
    Tiny: TypeAlias = npt.NDArray[np.int8]
    Words: TypeAlias = npt.NDArray[np.uint64]
else:
    Bools = Codes = Floats = Index = Ints = Small = Sums = Tiny = Words = Any

    class _Numpy:
        """Each name is fetched once and then an attribute like any other."""

        def __getattr__(self, name: str) -> Any:
            import numpy as loaded  # noqa: ICN001 - the import lock lets several threads come here at once

            value = getattr(loaded, name)
            setattr(self, name, value)
            return value

    np = _Numpy()
