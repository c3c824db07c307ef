# nothing todo here
DELTA = 4
