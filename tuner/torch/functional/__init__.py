"""PyTorch's own functions, which compute what the kernels do."""
