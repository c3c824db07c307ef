"""harnesstrain: PyTorch-style training for LLM harnesses. The model stays frozen, the program around it is trained."""

__version__ = "0.1.0"
