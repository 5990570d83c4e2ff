"""How tensors flow through a call of a model: its convolutions, and what follows each."""
