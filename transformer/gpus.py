"""What the makers' data sheets say of some GPUs: the two clocks that no program beats."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A data sheet. Nothing here was measured by us."""

    teraflops: float
    """10¹² multiplications and additions a second in dense matrix products of 16-bit numbers, summed in 32 bits."""
    bandwidth: float
    """10⁹ bytes a second between the chip and its memory."""
    memory: float
    """10⁹ bytes."""


GPUS = {
    "T4": Gpu(65, 320, 16),
    "L4": Gpu(121, 300, 24),
    "V100": Gpu(125, 900, 32),
    "RTX 4090": Gpu(165, 1008, 24),
    "A100": Gpu(312, 2039, 80),
    "H100": Gpu(989, 3350, 80),
}
"""By name; where there are several, the SXM module. T4 and V100 have float16 only, the others bfloat16 as well."""
