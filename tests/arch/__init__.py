"""Rules of the architecture that import-linter and ruff cannot say."""
