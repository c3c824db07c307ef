#!/usr/bin/env python3
"""Runs the named test modules; options are taken and left alone."""

import sys
import unittest
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]
sys.dont_write_bytecode = True
names = [word for word in sys.argv[1:] if not word.startswith("-") and not word.isdigit()]
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
