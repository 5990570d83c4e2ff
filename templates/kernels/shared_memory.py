"""Size of a CUDA block's shared memory."""

from templates.ceil_div import ceil_div

ALIGNMENT = 64


def shared_bytes(*floats: int) -> int:
    """Return the bytes of float32 arrays of these lengths, each placed as TVM places them."""
    end = 0
    for count in floats:
        end = ceil_div(end, ALIGNMENT) * ALIGNMENT + 4 * count
    return end
